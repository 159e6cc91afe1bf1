//! Tests of the names and lifetimes of certificates.

use api::kubevirt::install::{self, KubeVirt};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    certificates::{Profile, Settings, Usage, duration},
    kubevirt::releases::Source,
};

const NAMESPACE: &str = "kubevirt";

fn kubevirt(self_signed: &Value) -> KubeVirt {
    serde_json::from_value(json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": { "name": "kubevirt", "namespace": NAMESPACE },
        "spec": { "certificateRotateStrategy": { "selfSigned": self_signed } },
    }))
    .unwrap()
}

fn lifetimes(self_signed: &Value) -> [String; 4] {
    let Settings { ca, server } = settings(&kubevirt(self_signed)).unwrap();
    [
        ca.duration,
        ca.renew_before,
        server.duration,
        server.renew_before,
    ]
    .map(duration::format)
}

#[rstest]
#[case::defaults(json!({}), ["168h0m0s", "33h36m0s", "24h0m0s", "4h48m0s"])]
#[case::a_fifth_of_what_is_given(
    json!({ "ca": { "duration": "50h" }, "server": { "duration": "10h" } }),
    ["50h0m0s", "10h0m0s", "10h0m0s", "2h0m0s"]
)]
#[case::all_given(
    json!({
        "ca": { "duration": "120h", "renewBefore": "72h" },
        "server": { "duration": "48h", "renewBefore": "24h" }
    }),
    ["120h0m0s", "72h0m0s", "48h0m0s", "24h0m0s"]
)]
#[case::deprecated_fields_win(
    json!({
        "caRotateInterval": "168h", "caOverlapInterval": "48h", "certRotateInterval": "72h",
        "ca": { "duration": "120h", "renewBefore": "72h" }, "server": { "duration": "48h" }
    }),
    ["168h0m0s", "48h0m0s", "72h0m0s", "14h24m0s"]
)]
#[case::what_is_made_is_used_for_a_while(
    json!({ "ca": { "duration": "10h", "renewBefore": "10h" }, "server": { "duration": "1h", "renewBefore": "2h" } }),
    ["10h0m0s", "9h0m0s", "1h0m0s", "54m0s"]
)]
fn lifetimes_are_those_of_the_resource(#[case] given: Value, #[case] expected: [&str; 4]) {
    assert_eq!(lifetimes(&given), expected);
}

#[test]
fn a_resource_without_a_strategy_has_the_defaults() {
    let kubevirt = KubeVirt::new("kubevirt", install::KubeVirtSpec::default());
    assert_eq!(settings(&kubevirt), Ok(DEFAULT));
    assert_eq!(lifetimes(&json!({}))[0], "168h0m0s");
}

#[rstest]
#[case(json!({ "ca": { "duration": "a week" } }), "ca.duration is \"a week\": use hours, minutes and seconds, such as 36h30m")]
#[case(json!({ "ca": { "duration": "7d" } }), "ca.duration is \"7d\": use hours, minutes and seconds, such as 36h30m")]
#[case(json!({ "caOverlapInterval": "" }), "caOverlapInterval is \"\": use hours, minutes and seconds, such as 36h30m")]
#[case(json!({ "server": { "duration": "1s" } }), "server.duration is \"1s\": it must be at least 1m0s")]
#[case(json!({ "certRotateInterval": "-24h" }), "certRotateInterval is \"-24h\": it must be at least 1m0s")]
#[case(json!({ "server": { "renewBefore": "-1ns" } }), "server.renewBefore is \"-1ns\": it must be at least 0s")]
fn invalid_durations_are_refused_with_their_field(#[case] given: Value, #[case] expected: &str) {
    let error = settings(&kubevirt(&given)).unwrap_err().to_string();
    let expected = format!("spec.certificateRotateStrategy.selfSigned.{expected}");
    assert_eq!(error, expected);
}

#[rstest]
#[case(
    "kubevirt-virt-api-certs",
    "virt-api.kubevirt.pod.cluster.local",
    Some("virt-api"),
    false
)]
#[case(
    "kubevirt-operator-certs",
    "kubevirt-operator-webhook.kubevirt.pod.cluster.local",
    Some("kubevirt-operator-webhook"),
    false
)]
#[case(
    "kubevirt-virt-handler-server-certs",
    "kubevirt.io:system:node:virt-handler",
    Some("virt-handler"),
    false
)]
#[case(
    "kubevirt-virt-handler-certs",
    "kubevirt.io:system:client:virt-handler",
    None,
    false
)]
#[case(
    "kubevirt-virt-handler-migration-client-certs",
    "kubevirt.io:system:client:migration",
    None,
    false
)]
#[case(
    "kubevirt-synchronization-controller-certs",
    "kubevirt.io:system:client:virt-synchronization-controller",
    None,
    false
)]
#[case(
    "kubevirt-virt-dancer-server-certs",
    "virt-dancer.kubevirt.pod.cluster.local",
    Some("virt-dancer"),
    true
)]
#[case(
    "kubevirt-virt-dancer-client-certs",
    "kubevirt.io:system:client:virt-dancer",
    None,
    true
)]
fn a_certificate_has_the_names_of_its_component(
    #[case] secret: &str,
    #[case] common_name: &str,
    #[case] service: Option<&str>,
    #[case] guessed: bool,
) {
    let names = service.map_or(vec![], |service| {
        let suffixes = [
            "",
            ".kubevirt",
            ".kubevirt.svc",
            ".kubevirt.svc.cluster.local",
        ];
        suffixes.map(|suffix| format!("{service}{suffix}")).to_vec()
    });
    let usage = service.map_or(Usage::Client, |_| Usage::Server);
    let expected = Profile {
        common_name: common_name.to_owned(),
        dns_names: names,
        usage,
    };
    assert_eq!(profile(secret, NAMESPACE), expected);
    let said = format!("Secret {secret} is unknown: its certificate is issued for {common_name}");
    assert_eq!(note(secret, NAMESPACE), guessed.then_some(said));
}

#[test]
fn every_ca_has_its_name() {
    let names = AUTHORITIES.map(|secret| profile(secret, NAMESPACE).common_name);
    assert_eq!(
        names,
        ["kubevirt.io", "export.kubevirt.io", "backup.kubevirt.io"]
    );
    let new = profile("kubevirt-snapshot-ca", NAMESPACE);
    assert_eq!(
        (new.usage, &*new.common_name),
        (Usage::Ca, "snapshot.kubevirt.io")
    );
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn profiles_equal_those_of_the_release(#[case] source: Source) {
    let secrets = source.certificates();
    assert_eq!(secrets.len(), 17);
    for secret in secrets {
        let name = secret["secret"].as_str().unwrap();
        let profile = profile(name, "NS");
        let usage = match profile.usage {
            Usage::Ca => "CA",
            Usage::Server => "server",
            Usage::Client => "client",
        };
        assert_eq!(usage, secret["type"], "{name}");
        let expected = secret["CN"].as_str().unwrap().split('@').next().unwrap();
        assert_eq!(profile.common_name, expected, "{name}");
        assert_eq!(json!(profile.dns_names), secret["dnsNames"], "{name}");
        assert_eq!(note(name, "NS"), None);
    }
}
