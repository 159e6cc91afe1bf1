//! Tests of validation.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Blocker, Verdict, blocks_deletion, create, delete, probes, update};
use crate::kubevirt::Operator;
use api::kubevirt::install::KubeVirt;

fn operator() -> Operator {
    Operator {
        namespace: "kubevirt".into(),
        image: Some("registry.example/virt-operator:v1.9.0".into()),
        ..Operator::default()
    }
}

fn kubevirt(spec: &Value) -> KubeVirt {
    serde_json::from_value(json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"}, "spec": spec}))
    .unwrap()
}

fn configuration(configuration: &Value) -> Value {
    json!({"configuration": configuration})
}

fn gates(on: &[&str], off: &[&str]) -> Value {
    json!({"featureGates": on, "disabledFeatureGates": off})
}

fn updated(old: &Value, new: &Value) -> Verdict {
    update(&kubevirt(old), &kubevirt(new), &operator())
}

fn fields(verdict: &Verdict) -> Vec<&str> {
    verdict.errors.iter().map(|error| &*error.field).collect()
}

fn assert_refused(new: &Value, field: &str) {
    let created = create(&kubevirt(new), &[], &operator());
    for verdict in [updated(&json!({"productName": "before"}), new), created] {
        assert_eq!(fields(&verdict), [field], "{verdict:?}");
        assert!(verdict.errors[0].message.contains(field), "{verdict:?}");
    }
}

fn assert_allowed(new: &Value) {
    let created = create(&kubevirt(new), &[], &operator());
    for verdict in [updated(&json!({"productName": "before"}), new), created] {
        assert_eq!(verdict.errors, [], "{verdict:?}");
    }
}

#[test]
fn the_first_resource_is_allowed() {
    assert_eq!(
        create(&kubevirt(&json!({})), &[], &operator()),
        Verdict::default()
    );
}

#[test]
fn a_second_resource_is_refused_and_the_first_one_named() {
    let existing = [("elsewhere".to_owned(), "first".to_owned())];
    let verdict = create(&kubevirt(&json!({})), &existing, &operator());
    assert!(!verdict.is_allowed());
    assert!(
        verdict
            .message()
            .starts_with("KubeVirt is already created: elsewhere/first")
    );
}

#[test]
fn a_resource_in_another_namespace_than_the_operator_is_refused() {
    let mut elsewhere = kubevirt(&json!({}));
    elsewhere.metadata.namespace = Some("elsewhere".into());
    assert_eq!(
        fields(&create(&elsewhere, &[], &operator())),
        ["metadata.namespace"]
    );
}

#[rstest]
#[case(json!({"imageTag": "sha256:1"}), "spec.imageTag")]
#[case(json!({"imageTag": "a b"}), "spec.imageTag")]
#[case(json!({"imageRegistry": "https://registry.example"}), "spec.imageRegistry")]
#[case(json!({"imagePullPolicy": "Sometimes"}), "spec.imagePullPolicy")]
#[case(json!({"uninstallStrategy": "Keep"}), "spec.uninstallStrategy")]
#[case(json!({"productName": "not a label"}), "spec.productName")]
#[case(json!({"productVersion": "1.0."}), "spec.productVersion")]
#[case(json!({"productComponent": "a".repeat(64)}), "spec.productComponent")]
#[case(json!({"infra": {"replicas": 0}}), "spec.infra.replicas")]
#[case(json!({"infra": {"replicas": -1}}), "spec.infra.replicas")]
#[case(json!({"infra": {"replicas": 256}}), "spec.infra.replicas")]
#[case(json!({"synchronizationPort": 0}), "spec.synchronizationPort")]
#[case(json!({"synchronizationPort": "http"}), "spec.synchronizationPort")]
fn invalid_specs_are_refused(#[case] spec: Value, #[case] field: &str) {
    assert_refused(&spec, field);
}

#[rstest]
#[case(json!({"imageTag": "v1.8.4", "imageRegistry": "registry.example:5000/kubevirt"}))]
#[case(json!({"imagePullPolicy": "Always", "uninstallStrategy": ""}))]
#[case(json!({"uninstallStrategy": "BlockUninstallIfWorkloadsExist"}))]
#[case(json!({"productName": "a", "productVersion": "1.2-x_y", "productComponent": ""}))]
#[case(json!({"infra": {"replicas": 3}, "synchronizationPort": "9999"}))]
#[case(json!({"novelty": true}))]
fn valid_specs_are_allowed(#[case] spec: Value) {
    assert_allowed(&spec);
}

fn patch(type_: &str, patch: &str) -> Value {
    json!({"customizeComponents": {"patches": [
        {"resourceName": "virt-api", "resourceType": "Deployment", "type": type_, "patch": patch}]}})
}

#[rstest]
#[case::not_json("json", "[{]", "patches[0].patch")]
#[case::empty("merge", "", "patches[0].patch")]
#[case::operations_are_a_list("json", "{}", "patches[0].patch")]
#[case::a_merge_is_an_object("strategic", "[]", "patches[0].patch")]
#[case::unknown_type("xml", "{}", "patches[0].type")]
fn an_invalid_patch_is_refused(#[case] type_: &str, #[case] text: &str, #[case] field: &str) {
    let spec = patch(type_, text);
    assert_refused(&spec, &format!("spec.customizeComponents.{field}"));
}

#[test]
fn a_patch_names_its_object() {
    let spec = json!({"customizeComponents": {"patches": [
        {"resourceName": "", "resourceType": "Deployment", "type": "merge", "patch": "{}"}]}});
    assert_refused(&spec, "spec.customizeComponents.patches[0].resourceName");
}

#[rstest]
#[case("json", r#"[{"op": "remove", "path": "/spec"}]"#)]
#[case("merge", "{}")]
#[case("strategic", r#"{"spec": {"replicas": 3}}"#)]
fn a_valid_patch_is_allowed(#[case] type_: &str, #[case] text: &str) {
    assert_allowed(&patch(type_, text));
}

fn self_signed(given: &Value) -> Value {
    json!({"certificateRotateStrategy": {"selfSigned": given}})
}

#[rstest]
#[case::both_ways(json!({"caRotateInterval": "168h", "ca": {"duration": "168h"}}), "caRotateInterval")]
#[case::both_ways_for_servers(json!({"certRotateInterval": "20h", "server": {"renewBefore": "1h"}}), "certRotateInterval")]
#[case::ca_renewed_before_it_is_made(json!({"ca": {"duration": "20h", "renewBefore": "21h"}, "server": {"duration": "10h"}}), "ca.renewBefore")]
#[case::overlap_longer_than_the_default(json!({"caOverlapInterval": "169h"}), "ca.renewBefore")]
#[case::server_renewed_before_it_is_made(json!({"server": {"duration": "20h", "renewBefore": "21h"}}), "server.renewBefore")]
#[case::server_outlives_its_ca(json!({"ca": {"duration": "20h"}}), "server.duration")]
#[case::old_server_outlives_its_ca(json!({"certRotateInterval": "169h"}), "server.duration")]
#[case::no_duration(json!({"ca": {"duration": "soon"}}), "ca.duration")]
#[case::no_time(json!({"server": {"duration": "0h"}}), "server.duration")]
#[case::negative(json!({"ca": {"renewBefore": "-1h"}}), "ca.renewBefore")]
fn invalid_lifetimes_are_refused(#[case] given: Value, #[case] field: &str) {
    let field = format!("spec.certificateRotateStrategy.selfSigned.{field}");
    assert_refused(&self_signed(&given), &field);
}

#[rstest]
#[case(json!({}))]
#[case(json!({"ca": {"duration": "48h", "renewBefore": "16h"}, "server": {"duration": "24h", "renewBefore": "12h"}}))]
#[case(json!({"caRotateInterval": "168h", "certRotateInterval": "24h", "caOverlapInterval": "24h"}))]
#[case(json!({"ca": {"duration": "24h", "renewBefore": "24h"}}))]
fn valid_lifetimes_are_allowed(#[case] given: Value) {
    assert_allowed(&self_signed(&given));
}

#[rstest]
#[case("abcdefg", false)]
#[case("1.fd3ggx", false)]
#[case("0.999", false)]
#[case("-1.3", false)]
#[case("inf", false)]
#[case("NaN", false)]
#[case("1.0", true)]
#[case("5", true)]
#[case("1.123", true)]
fn a_ratio_is_one_or_more(#[case] ratio: &str, #[case] allowed: bool) {
    let spec = configuration(&json!({"additionalGuestMemoryOverheadRatio": ratio}));
    if allowed {
        assert_allowed(&spec);
    } else {
        assert_refused(
            &spec,
            "spec.configuration.additionalGuestMemoryOverheadRatio",
        );
    }
}

#[rstest]
#[case::template_off(json!({"virtTemplateDeployment": {"enabled": true}, "developerConfiguration": gates(&[], &["Template"])}), "virtTemplateDeployment.enabled")]
#[case::manual_off(json!({"roleAggregationStrategy": "Manual", "developerConfiguration": gates(&[], &["OptOutRoleAggregation"])}), "roleAggregationStrategy")]
#[case::downtime(json!({"migrations": {"maxDowntimeMs": 300}}), "migrations.maxDowntimeMs")]
fn a_setting_is_refused_without_its_gate(#[case] given: Value, #[case] field: &str) {
    assert_refused(
        &configuration(&given),
        &format!("spec.configuration.{field}"),
    );
}

#[rstest]
#[case::template(json!({"virtTemplateDeployment": {"enabled": true}}))]
#[case::no_template(json!({"virtTemplateDeployment": {"enabled": false}, "developerConfiguration": gates(&[], &["Template"])}))]
#[case::template_unset(json!({"virtTemplateDeployment": {}, "developerConfiguration": gates(&[], &["Template"])}))]
#[case::manual(json!({"roleAggregationStrategy": "Manual"}))]
#[case::not_manual(json!({"roleAggregationStrategy": "AggregateToDefault", "developerConfiguration": gates(&[], &["OptOutRoleAggregation"])}))]
#[case::downtime(json!({"migrations": {"maxDowntimeMs": 300}, "developerConfiguration": gates(&["MigrationStallDetection"], &[])}))]
fn a_setting_is_allowed_with_its_gate(#[case] given: Value) {
    assert_allowed(&configuration(&given));
}

#[rstest]
#[case("v1.8.4", false)]
#[case("v1.9.0", true)]
#[case("v1.10.0", true)]
#[case("latest", true)]
fn feature_gates_are_those_of_the_requested_release(#[case] tag: &str, #[case] allowed: bool) {
    let spec = json!({"imageTag": tag, "configuration": {"roleAggregationStrategy": "Manual"}});
    assert_eq!(
        create(&kubevirt(&spec), &[], &operator()).is_allowed(),
        allowed
    );
}

#[test]
fn an_unchanged_downtime_needs_no_gate() {
    let old = configuration(&json!({"migrations": {"maxDowntimeMs": 300}}));
    let mut new = old.clone();
    new["productName"] = json!("other");
    assert_eq!(updated(&old, &new), Verdict::default());
    new["configuration"]["migrations"]["maxDowntimeMs"] = json!(301);
    assert!(!updated(&old, &new).is_allowed());
}

const CIPHER: &str = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";

#[rstest]
#[case::no_version(json!({"ciphers": [CIPHER]}), "ciphers")]
#[case::version_13(json!({"ciphers": [CIPHER], "minTLSVersion": "VersionTLS13"}), "ciphers")]
#[case::unknown(json!({"ciphers": [CIPHER, "NOT_A_CIPHER"], "minTLSVersion": "VersionTLS12"}), "ciphers[1]")]
fn invalid_ciphers_are_refused(#[case] tls: Value, #[case] field: &str) {
    let spec = configuration(&json!({"tlsConfiguration": tls}));
    assert_refused(
        &spec,
        &format!("spec.configuration.tlsConfiguration.{field}"),
    );
}

#[rstest]
#[case(json!({"ciphers": [CIPHER], "minTLSVersion": "VersionTLS12"}))]
#[case(json!({"ciphers": [], "minTLSVersion": "VersionTLS13"}))]
#[case(json!({}))]
fn valid_ciphers_are_allowed(#[case] tls: Value) {
    assert_allowed(&configuration(&json!({"tlsConfiguration": tls})));
}

#[rstest]
#[case(json!({}), "customProfile")]
#[case(json!({"customProfile": {"localhostProfile": "p", "runtimeDefaultProfile": true}}), "customProfile.localhostProfile")]
fn an_ambiguous_seccomp_profile_is_refused(#[case] profile: Value, #[case] field: &str) {
    let spec =
        configuration(&json!({"seccompConfiguration": {"virtualMachineInstanceProfile": profile}}));
    let parent = "spec.configuration.seccompConfiguration.virtualMachineInstanceProfile";
    assert_refused(&spec, &format!("{parent}.{field}"));
}

#[rstest]
#[case(json!({}))]
#[case(json!({"virtualMachineInstanceProfile": null}))]
#[case(json!({"virtualMachineInstanceProfile": {"customProfile": {"localhostProfile": "p"}}}))]
#[case(json!({"virtualMachineInstanceProfile": {"customProfile": {"runtimeDefaultProfile": true, "localhostProfile": null}}}))]
fn a_valid_seccomp_profile_is_allowed(#[case] seccomp: Value) {
    assert_allowed(&configuration(&json!({"seccompConfiguration": seccomp})));
}

#[rstest]
#[case::one(&["A"], &["A"], 1)]
#[case::several(&["A", "B", "C"], &["B", "A"], 2)]
#[case::different(&["A"], &["B"], 0)]
#[case::only_on(&["A"], &[], 0)]
#[case::only_off(&[], &["A"], 0)]
fn a_gate_is_on_or_off_but_not_both(
    #[case] on: &[&str],
    #[case] off: &[&str],
    #[case] errors: usize,
) {
    let spec = configuration(&json!({"developerConfiguration": gates(on, off)}));
    assert_eq!(updated(&json!({}), &spec).errors.len(), errors);
    let mut other = spec.clone();
    other["productName"] = json!("other");
    assert_eq!(
        updated(&spec, &other).errors,
        [],
        "the gates are as they were"
    );
}

#[rstest]
#[case("LiveMigration", Some("is always on"))]
#[case("DisableMDEVConfiguration", Some("is deprecated"))]
#[case("Macvtap", Some("has no effect"))]
#[case("Nonsense", Some("is unknown"))]
#[case("HostDisk", None)]
#[case("Template", None)]
fn warns_of_a_feature_gate_without_effect(#[case] gate: &str, #[case] warning: Option<&str>) {
    let spec = configuration(&json!({"developerConfiguration": gates(&[gate], &[])}));
    let verdict = updated(&json!({}), &spec);
    assert!(verdict.is_allowed());
    assert_eq!(
        verdict.warnings.len(),
        usize::from(warning.is_some()),
        "{verdict:?}"
    );
    if let Some(warning) = warning {
        assert!(
            verdict.warnings[0].contains(&format!("{gate} {warning} in v1.9.0")),
            "{verdict:?}"
        );
    }
}

#[test]
fn gates_of_a_later_release_are_not_validated() {
    let mut spec = configuration(&json!({"developerConfiguration": gates(&["Nonsense"], &[])}));
    spec["imageTag"] = json!("v1.11.0");
    assert_eq!(updated(&json!({}), &spec), Verdict::default());
}

#[rstest]
#[case(json!({"mediatedDevicesConfiguration": {"mediatedDevicesTypes": ["a"]}}), 1)]
#[case(json!({"mediatedDevicesConfiguration": {"mediatedDevicesTypes": null, "nodeMediatedDeviceTypes": [{}, {"mediatedDevicesTypes": []}]}}), 1)]
#[case(json!({"mediatedDevicesConfiguration": {"mediatedDeviceTypes": ["a"], "nodeMediatedDeviceTypes": [{"mediatedDeviceTypes": ["b"]}]}}), 0)]
#[case(json!({"architectureConfiguration": {"ppc64le": {}}}), 1)]
#[case(json!({"architectureConfiguration": {"amd64": {}}}), 0)]
fn warns_of_deprecated_fields(#[case] given: Value, #[case] warnings: usize) {
    let verdict = updated(&json!({}), &configuration(&given));
    assert!(verdict.is_allowed());
    assert_eq!(verdict.warnings.len(), warnings, "{verdict:?}");
}

#[test]
fn an_update_without_a_change_of_spec_is_allowed() {
    let spec = json!({"infra": {"replicas": 0}, "imageTag": "a b"});
    let mut new = kubevirt(&spec);
    new.metadata.finalizers = None;
    new.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
    assert_eq!(
        update(&kubevirt(&spec), &new, &operator()),
        Verdict::default()
    );
}

#[test]
fn reports_all_errors_at_once() {
    let spec = json!({"infra": {"replicas": 0}, "imageTag": "a b", "productName": "a b"});
    assert_eq!(updated(&json!({}), &spec).errors.len(), 3);
}

fn deployed(strategy: Option<&str>, phase: Option<&str>) -> KubeVirt {
    serde_json::from_value(
        json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"},
        "spec": {"uninstallStrategy": strategy}, "status": {"phase": phase}}),
    )
    .unwrap()
}

fn blockers(count: usize) -> Vec<Blocker> {
    (0..count)
        .map(|number| Blocker {
            kind: "VirtualMachine".into(),
            namespace: "default".into(),
            name: format!("vm{number}"),
        })
        .collect()
}

#[rstest]
#[case::empty(Some(""), Some("Deployed"), true)]
#[case::absent(None, Some("Deployed"), true)]
#[case::remove(Some("RemoveWorkloads"), Some("Deployed"), true)]
#[case::block(Some("BlockUninstallIfWorkloadsExist"), Some("Deployed"), false)]
#[case::no_phase(Some("BlockUninstallIfWorkloadsExist"), None, true)]
#[case::deploying(Some("BlockUninstallIfWorkloadsExist"), Some("Deploying"), true)]
#[case::deleting(Some("BlockUninstallIfWorkloadsExist"), Some("Deleting"), true)]
#[case::deleted(Some("BlockUninstallIfWorkloadsExist"), Some("Deleted"), true)]
fn deletion_is_blocked_by_workloads(
    #[case] strategy: Option<&str>,
    #[case] phase: Option<&str>,
    #[case] allowed: bool,
) {
    let kubevirt = deployed(strategy, phase);
    assert_eq!(delete(&kubevirt, &blockers(1)).is_allowed(), allowed);
    assert_eq!(blocks_deletion(&kubevirt), !allowed);
    assert!(delete(&kubevirt, &[]).is_allowed());
}

#[test]
fn blockers_are_listed() {
    let kubevirt = deployed(Some("BlockUninstallIfWorkloadsExist"), Some("Deployed"));
    let message = delete(&kubevirt, &blockers(2)).message();
    assert!(
        message.contains(
            "there are VirtualMachine default/vm0, VirtualMachine default/vm1: delete them"
        ),
        "{message}"
    );
    let message = delete(&kubevirt, &blockers(13)).message();
    assert!(
        message.contains("default/vm9 and 3 more: delete"),
        "{message}"
    );
}

#[test]
fn changed_placements_are_probed() {
    let placement = json!({"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]});
    let old = kubevirt(&json!({"infra": {"nodePlacement": placement}}));
    let new = kubevirt(
        &json!({"infra": {"nodePlacement": placement}, "workloads": {"nodePlacement": placement}}),
    );
    let both = probes(None, &new);
    let kinds: Vec<_> = both
        .iter()
        .map(|probe| (probe.field, &*probe.object.id.kind))
        .collect();
    assert_eq!(
        kinds,
        [
            ("spec.infra.nodePlacement", "Deployment"),
            ("spec.workloads.nodePlacement", "DaemonSet")
        ]
    );
    let one = probes(Some(&old), &new);
    assert_eq!(one.len(), 1);
    let object = one[0].object.value();
    assert_eq!(object["metadata"]["namespace"], "kubevirt");
    let pod = &object["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], placement["nodeSelector"]);
    assert_eq!(pod["tolerations"], placement["tolerations"]);
    assert_eq!(
        object["spec"]["selector"]["matchLabels"],
        object["spec"]["template"]["metadata"]["labels"]
    );
    assert!(probes(Some(&new), &new).is_empty());
    assert!(probes(None, &kubevirt(&json!({}))).is_empty());
}

#[test]
fn a_refused_probe_is_reported_with_the_api_servers_message() {
    let new = kubevirt(&json!({"infra": {"nodePlacement": {"nodeSelector": {"-": "b"}}}}));
    let mut verdict = Verdict::default();
    probes(None, &new)[0].refused("Invalid value: \"-\"", &mut verdict);
    assert_eq!(
        verdict.message(),
        "spec.infra.nodePlacement: Invalid value: \"-\""
    );
}

proptest! {
    #[test]
    fn any_text_is_validated(text in any::<String>()) {
        let new = kubevirt(&json!({
            "imageTag": text, "productName": text, "uninstallStrategy": text, "synchronizationPort": text,
            "customizeComponents": {"patches": [{"resourceName": text, "resourceType": text, "type": "json", "patch": text}]},
            "certificateRotateStrategy": {"selfSigned": {"ca": {"duration": text, "renewBefore": text}}},
            "configuration": {"additionalGuestMemoryOverheadRatio": text, "tlsConfiguration": text, "seccompConfiguration": [text]},
        }));
        let _ = update(&kubevirt(&json!({})), &new, &operator());
    }
}
