//! Certificates, and what trusts them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    film::Film,
    ground::{Ground, REGISTRY, tell, tell_in_virtual_time},
};

const CA: &str = "kubevirt-ca";

#[test]
fn certificates_are_rotated_and_whoever_trusts_one_bundle_trusts_the_next() {
    tell_in_virtual_time(async {
        let ground = Ground::begin().await;
        let strategy = json!({ "selfSigned": {
            "ca": { "duration": "4h", "renewBefore": "2h" },
            "server": { "duration": "2h", "renewBefore": "1h" },
        } });
        ground
            .install_with(json!({
                "imageTag": "v1.9.0", "imageRegistry": REGISTRY,
                "certificateRotateStrategy": strategy,
            }))
            .await;
        ground.until_deployed("v1.9.0").await;
        let first = secrets(&ground).await;
        let pods = pods(&ground).await;
        let bundles = Film::of(&ground, "ConfigMap").await;
        ground.wait(8 * 3600).await;

        let now = secrets(&ground).await;
        assert_eq!(now.len(), first.len());
        for (name, secret) in &now {
            let (old, new) = (&first[name]["data"], &secret["data"]);
            assert_ne!(old["tls.crt"], new["tls.crt"], "{name}");
            assert_ne!(old["tls.key"], new["tls.key"], "{name}");
        }
        assert_eq!(self::pods(&ground).await, pods);
        // One bundle always has something of the one before, and never grows for ever.
        let mut last: Option<BTreeSet<String>> = None;
        for scene in bundles.scenes() {
            if scene.object["metadata"]["name"] != CA {
                continue;
            }
            let bundle = certificates(scene.object["data"]["ca-bundle"].as_str().unwrap());
            assert!((1..=4).contains(&bundle.len()), "{}", bundle.len());
            if let Some(last) = last {
                assert!(bundle.intersection(&last).next().is_some());
            }
            last = Some(bundle);
        }
        until_trusted(&ground).await;
    });
}

#[test]
fn a_secret_that_is_deleted_or_spoilt_comes_back_and_nothing_else_is_replaced() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let before = secrets(&ground).await;
        let api = "kubevirt-virt-api-certs";
        ground.delete("Secret", api).await;
        ground
            .until("Secret", api, |secret| {
                secret["metadata"]["uid"] != before[api]["metadata"]["uid"]
            })
            .await;
        let controller = "kubevirt-controller-certs";
        let spoilt = json!({ "data": { "tls.crt": "bm90aGluZw==" } });
        ground.patch("Secret", controller, spoilt).await;
        ground
            .until("Secret", controller, |secret| {
                secret["data"]["tls.crt"] != "bm90aGluZw=="
            })
            .await;
        ground.wait(60).await;
        let after = secrets(&ground).await;
        let changed = after
            .iter()
            .filter(|(name, secret)| secret["data"]["tls.crt"] != before[*name]["data"]["tls.crt"]);
        let changed: Vec<_> = changed.map(|(name, _)| name.as_str()).collect();
        assert_eq!(changed, [controller, api]);
    });
}

#[test]
fn a_ca_that_is_lost_is_made_anew_with_all_that_it_signed() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let before = secrets(&ground).await;
        ground.delete("Secret", CA).await;
        ground
            .until("Secret", CA, |secret| {
                secret["metadata"]["uid"] != before[CA]["metadata"]["uid"]
            })
            .await;
        ground.until_deployed("v1.9.0").await;
        until_trusted(&ground).await;
        // Those who have read the old bundle only are given time.
        let bundle = ground.get("ConfigMap", CA).await;
        let bundle = certificates(bundle["data"]["ca-bundle"].as_str().unwrap());
        assert_eq!(bundle.len(), 2);
        if ground.cluster.is_real() {
            // The leaves follow minutes later.
            return;
        }
        let api = "kubevirt-virt-api-certs";
        ground
            .until("Secret", api, |secret| {
                secret["data"]["tls.crt"] != before[api]["data"]["tls.crt"]
            })
            .await;
    });
}

#[test]
fn a_bundle_that_is_spoilt_is_put_back_wherever_it_is() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        ground.wait(60).await;
        let right = ground.get("ConfigMap", CA).await["data"]["ca-bundle"].clone();
        ground
            .patch(
                "ConfigMap",
                CA,
                json!({ "data": { "ca-bundle": "nothing" } }),
            )
            .await;
        ground
            .until("ConfigMap", CA, |found| found["data"]["ca-bundle"] == right)
            .await;
        ground
            .patch(
                "APIService",
                "v1.subresources.kubevirt.io",
                json!({ "spec": { "caBundle": "bm90aGluZw==" } }),
            )
            .await;
        ground.wait(60).await;
        until_trusted(&ground).await;
    });
}

#[test]
fn another_lifetime_is_given_without_losing_trust() {
    tell(async {
        let ground = Ground::with("v1.9.0").await;
        let before = secrets(&ground).await;
        let strategy =
            json!({ "selfSigned": { "server": { "duration": "12h", "renewBefore": "6h" } } });
        ground
            .change(json!({ "certificateRotateStrategy": strategy }))
            .await;
        let api = "kubevirt-virt-api-certs";
        ground
            .until("Secret", api, |secret| {
                secret["data"]["tls.crt"] != before[api]["data"]["tls.crt"]
            })
            .await;
        ground.until_deployed("v1.9.0").await;
        let after = secrets(&ground).await;
        assert_eq!(after[CA]["data"]["tls.crt"], before[CA]["data"]["tls.crt"]);
    });
}

/// The Secrets of KubeVirt, by name.
async fn secrets(ground: &Ground) -> BTreeMap<String, Value> {
    let all = ground.list("Secret").await.into_iter();
    let ours = all.filter(|secret| secret["type"] == "kubernetes.io/tls");
    let named = ours.map(|secret| {
        (
            secret["metadata"]["name"].as_str().unwrap().to_owned(),
            secret,
        )
    });
    named.collect()
}

/// The pods that are there, by uid.
async fn pods(ground: &Ground) -> BTreeSet<String> {
    let pods = ground.list("Pod").await;
    let uids = pods.iter().map(|pod| pod["metadata"]["uid"].to_string());
    uids.collect()
}

fn certificates(bundle: &str) -> BTreeSet<String> {
    let parts = bundle.split("-----BEGIN CERTIFICATE-----").skip(1);
    parts.map(|part| part.trim().to_owned()).collect()
}

/// Waits until the API server trusts what the ConfigMap says is to be trusted.
async fn until_trusted(ground: &Ground) {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    let bundle = ground.get("ConfigMap", CA).await;
    let bundle = STANDARD.encode(bundle["data"]["ca-bundle"].as_str().unwrap());
    ground
        .until("APIService", "v1.subresources.kubevirt.io", |found| {
            found["spec"]["caBundle"] == bundle.as_str()
        })
        .await;
    for (kind, name) in [
        ("ValidatingWebhookConfiguration", "virt-operator-validator"),
        ("ValidatingWebhookConfiguration", "virt-api-validator"),
        ("MutatingWebhookConfiguration", "virt-api-mutator"),
    ] {
        ground
            .until(kind, name, |found| {
                let mut hooks = found["webhooks"].as_array().unwrap().iter();
                hooks.all(|hook| hook["clientConfig"]["caBundle"] == bundle.as_str())
            })
            .await;
    }
}
