//! Rotation of KubeVirt's certificates and CA bundles.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    harness::skipped::skip_checks,
    recording::WatchRecording,
    scenario::{InstallScenario, REGISTRY, run_scenario, run_scenario_in_virtual_time},
};

const CA: &str = "kubevirt-ca";

#[test]
fn certificate_rotation_keeps_trust_across_ca_bundles() {
    run_scenario_in_virtual_time(async {
        let scenario = InstallScenario::start().await;
        let strategy = json!({ "selfSigned": {
            "ca": { "duration": "4h", "renewBefore": "2h" },
            "server": { "duration": "2h", "renewBefore": "1h" },
        } });
        scenario
            .install_with(json!({
                "imageTag": "v1.9.0", "imageRegistry": REGISTRY,
                "certificateRotateStrategy": strategy,
            }))
            .await;
        scenario.until_deployed("v1.9.0").await;
        let first = secrets(&scenario).await;
        let pods = pods(&scenario).await;
        let bundles = WatchRecording::start(&scenario, "ConfigMap").await;
        scenario.wait(8 * 3600).await;

        let now = secrets(&scenario).await;
        assert_eq!(now.len(), first.len());
        for (name, secret) in &now {
            let (old, new) = (&first[name]["data"], &secret["data"]);
            assert_ne!(old["tls.crt"], new["tls.crt"], "{name}");
            assert_ne!(old["tls.key"], new["tls.key"], "{name}");
        }
        assert_eq!(self::pods(&scenario).await, pods);
        // Successive bundles always share a CA, and a bundle does not grow without bound.
        let mut last: Option<BTreeSet<String>> = None;
        for state in bundles.states() {
            if state.object["metadata"]["name"] != CA {
                continue;
            }
            let bundle = certificates(state.object["data"]["ca-bundle"].as_str().unwrap());
            assert!((1..=4).contains(&bundle.len()), "{}", bundle.len());
            if let Some(last) = last {
                assert!(bundle.intersection(&last).next().is_some());
            }
            last = Some(bundle);
        }
        until_trusted(&scenario).await;
    });
}

#[test]
fn a_deleted_or_corrupted_secret_is_recreated_and_nothing_else_is_replaced() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let before = secrets(&scenario).await;
        let api = "kubevirt-virt-api-certs";
        scenario.delete("Secret", api).await;
        scenario
            .until("Secret", api, |secret| {
                secret["metadata"]["uid"] != before[api]["metadata"]["uid"]
            })
            .await;
        let controller = "kubevirt-controller-certs";
        let spoilt = json!({ "data": { "tls.crt": "bm90aGluZw==" } });
        scenario.patch("Secret", controller, spoilt).await;
        scenario
            .until("Secret", controller, |secret| {
                secret["data"]["tls.crt"] != "bm90aGluZw=="
            })
            .await;
        scenario.wait(60).await;
        let after = secrets(&scenario).await;
        let changed = after
            .iter()
            .filter(|(name, secret)| secret["data"]["tls.crt"] != before[*name]["data"]["tls.crt"]);
        let changed: Vec<_> = changed.map(|(name, _)| name.as_str()).collect();
        assert_eq!(changed, [controller, api]);
    });
}

#[test]
fn a_lost_ca_is_recreated_with_all_certificates_it_signed() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let before = secrets(&scenario).await;
        scenario.delete("Secret", CA).await;
        scenario
            .until("Secret", CA, |secret| {
                secret["metadata"]["uid"] != before[CA]["metadata"]["uid"]
            })
            .await;
        scenario.until_deployed("v1.9.0").await;
        until_trusted(&scenario).await;
        // Clients that have read only the old bundle keep working for a while.
        let bundle = scenario.get("ConfigMap", CA).await;
        let bundle = certificates(bundle["data"]["ca-bundle"].as_str().unwrap());
        assert_eq!(bundle.len(), 2);
        if scenario.cluster.is_real() {
            return skip_checks("the serving certificates are rotated minutes later");
        }
        let api = "kubevirt-virt-api-certs";
        scenario
            .until("Secret", api, |secret| {
                secret["data"]["tls.crt"] != before[api]["data"]["tls.crt"]
            })
            .await;
    });
}

#[test]
fn a_corrupted_ca_bundle_is_repaired_everywhere() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        scenario.wait(60).await;
        let right = scenario.get("ConfigMap", CA).await["data"]["ca-bundle"].clone();
        scenario
            .patch(
                "ConfigMap",
                CA,
                json!({ "data": { "ca-bundle": "nothing" } }),
            )
            .await;
        scenario
            .until("ConfigMap", CA, |found| found["data"]["ca-bundle"] == right)
            .await;
        scenario
            .patch(
                "APIService",
                "v1.subresources.kubevirt.io",
                json!({ "spec": { "caBundle": "bm90aGluZw==" } }),
            )
            .await;
        scenario.wait(60).await;
        until_trusted(&scenario).await;
    });
}

#[test]
fn a_changed_certificate_lifetime_keeps_trust() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.9.0").await;
        let before = secrets(&scenario).await;
        let strategy =
            json!({ "selfSigned": { "server": { "duration": "12h", "renewBefore": "6h" } } });
        scenario
            .patch_spec(json!({ "certificateRotateStrategy": strategy }))
            .await;
        let api = "kubevirt-virt-api-certs";
        scenario
            .until("Secret", api, |secret| {
                secret["data"]["tls.crt"] != before[api]["data"]["tls.crt"]
            })
            .await;
        scenario.until_deployed("v1.9.0").await;
        let after = secrets(&scenario).await;
        assert_eq!(after[CA]["data"]["tls.crt"], before[CA]["data"]["tls.crt"]);
    });
}

async fn secrets(scenario: &InstallScenario) -> BTreeMap<String, Value> {
    let all = scenario.list("Secret").await.into_iter();
    let certificates = all.filter(|secret| secret["type"] == "kubernetes.io/tls");
    let named = certificates.map(|secret| {
        (
            secret["metadata"]["name"].as_str().unwrap().to_owned(),
            secret,
        )
    });
    named.collect()
}

/// UIDs of all pods.
async fn pods(scenario: &InstallScenario) -> BTreeSet<String> {
    let pods = scenario.list("Pod").await;
    let uids = pods.iter().map(|pod| pod["metadata"]["uid"].to_string());
    uids.collect()
}

fn certificates(bundle: &str) -> BTreeSet<String> {
    let parts = bundle.split("-----BEGIN CERTIFICATE-----").skip(1);
    parts.map(|part| part.trim().to_owned()).collect()
}

/// Waits until webhooks and APIServices have the CA bundle of the ConfigMap.
async fn until_trusted(scenario: &InstallScenario) {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    let bundle = scenario.get("ConfigMap", CA).await;
    let bundle = STANDARD.encode(bundle["data"]["ca-bundle"].as_str().unwrap());
    scenario
        .until("APIService", "v1.subresources.kubevirt.io", |found| {
            found["spec"]["caBundle"] == bundle.as_str()
        })
        .await;
    for (kind, name) in [
        ("ValidatingWebhookConfiguration", "virt-operator-validator"),
        ("ValidatingWebhookConfiguration", "virt-api-validator"),
        ("MutatingWebhookConfiguration", "virt-api-mutator"),
    ] {
        scenario
            .until(kind, name, |found| {
                let mut hooks = found["webhooks"].as_array().unwrap().iter();
                hooks.all(|hook| hook["clientConfig"]["caBundle"] == bundle.as_str())
            })
            .await;
    }
}
