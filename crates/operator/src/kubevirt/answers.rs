//! Test of the types that the KubeVirt operator decodes: null, absent and empty mean the same.

use api::kubevirt::install::KubeVirt;
use decode::testing::{Decoder, check, describe};
use serde_json::{Value, json};

use super::{kinds::Listing, slim};
use crate::{machine::answers::metadata, requests::MetadataList};

/// Texts whose form the API server checks.
const TIMES: [&str; 6] = [
    "/metadata/creationTimestamp",
    "/metadata/deletionTimestamp",
    "/metadata/managedFields/*/time",
    "/items/*/metadata/creationTimestamp",
    "/items/*/metadata/deletionTimestamp",
    "/items/*/metadata/managedFields/*/time",
];

fn is_decoded(
    name: &str,
    sample: Value,
    required: &[&str],
    significant: &[&str],
    decode: &dyn Fn(&str) -> Result<String, String>,
) {
    check(&Decoder {
        name,
        sample,
        decode: &|value: &Value| decode(&value.to_string()),
        required,
        significant,
        validated: &TIMES,
        never_null: &[],
    });
}

#[test]
fn pods() {
    let container = json!({
        "name": "virt-api", "restartCount": 2, "ready": false,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 2, "message": "died"}},
    });
    let sample = json!({
        "metadata": metadata(), "spec": {"nodeName": "node-1", "containers": []},
        "status": {
            "phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}],
            "conditions": [{"type": "Ready", "status": "False", "reason": "a", "message": "b"}],
            "initContainerStatuses": [container], "containerStatuses": [container],
        },
    });
    let significant = [
        // An address that is empty is one more entry.
        "/status/podIPs/*/ip",
        "/status/containerStatuses/*/state/waiting",
        "/status/initContainerStatuses/*/state/waiting",
    ];
    is_decoded("Pod", sample, &["/metadata"], &significant, &|text| {
        let pod = slim::pod(text.as_bytes())?;
        Ok(describe(&pod.object))
    });
}

#[test]
fn nodes() {
    let sample = json!({
        "metadata": metadata(),
        "spec": {
            "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": true,
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"architecture": "amd64"},
        },
    });
    is_decoded("Node", sample, &["/metadata"], &[], &|text| {
        let node = slim::node(text.as_bytes())?;
        Ok(describe(&node.object))
    });
}

#[test]
fn objects_of_an_installation() {
    let sample = json!({
        "metadata": metadata(),
        "spec": {"replicas": 2, "selector": {}},
        "status": {
            "observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
            "conditions": [],
        },
    });
    let required = ["/metadata", "/metadata/name"];
    for (group, kind) in [
        ("apps", "Deployment"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
    ] {
        is_decoded(kind, sample.clone(), &required, &[], &|text| {
            let live = slim::live(group, "v1", kind, text.as_bytes())?;
            let is_finished = plan::kubevirt::job::is_finished(&live);
            let found = (
                (&live.id, &live.uid, &live.resource_version, live.generation),
                (&live.labels, &live.annotations, &live.finalizers),
                (live.deleting, &live.upstream_entries, is_finished),
            );
            Ok(describe(&found))
        });
    }
}

#[test]
fn secrets() {
    let sample = json!({
        "metadata": metadata(), "data": {"tls.crt": "YQ=="}, "type": "kubernetes.io/tls",
    });
    let required = ["/metadata", "/metadata/name"];
    is_decoded("Secret", sample, &required, &[], &|text| {
        let secret = slim::secret(text.as_bytes())?;
        Ok(describe(&(secret.live.id, secret.data)))
    });
}

#[test]
fn discovery() {
    let sample = json!({"kind": "APIGroupDiscoveryList", "metadata": {}, "items": [{
        "metadata": {"name": "kubevirt.io", "creationTimestamp": null},
        "versions": [{"version": "v1", "freshness": "Current", "resources": [{
            "resource": "kubevirts", "responseKind": {"group": "", "version": "", "kind": "KubeVirt"},
            "scope": "Namespaced", "singularResource": "kubevirt", "verbs": ["get"],
            "subresources": [{"subresource": "status", "responseKind": null, "verbs": []}],
        }]}],
    }]});
    is_decoded("Listing", sample, &[], &[], &|text| {
        let listing: Listing = decode::from_str(text).map_err(|error| error.to_string())?;
        Ok(describe(&listing))
    });
}

#[test]
fn metadata_lists() {
    let sample = json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7", "continue": "abc", "remainingItemCount": 3},
        "items": [{"kind": "PartialObjectMetadata", "metadata": metadata()}],
    });
    is_decoded("MetadataList", sample, &[], &[], &|text| {
        let list: MetadataList = decode::from_str(text).map_err(|error| error.to_string())?;
        Ok(describe(&list))
    });
}

#[test]
fn kubevirts() {
    let condition = json!({
        "type": "Available", "status": "True", "reason": "a", "message": "b",
        "lastProbeTime": null, "lastTransitionTime": "2026-11-16T02:00:00Z",
    });
    let sample = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": metadata(),
        "spec": {
            "imageTag": "v1.9.0", "imageRegistry": "registry.example/kubevirt",
            "configuration": {"developerConfiguration": {"featureGates": ["A"]}},
            "certificateRotateStrategy": {"selfSigned": {"ca": {"duration": "48h"}}},
            "customizeComponents": {"patches": [], "flags": {"api": {"v": "3"}}},
            "infra": {"nodePlacement": {"nodeSelector": {"a": "b"}}, "replicas": 2},
            "imagePullSecrets": [{"name": "a"}], "workloadUpdateStrategy": {},
        },
        "status": {
            "phase": "Deployed", "conditions": [condition], "generations": [],
            "observedKubeVirtVersion": "v1.9.0", "targetKubeVirtVersion": "v1.9.0",
            "observedGeneration": 1, "outdatedVirtualMachineInstanceWorkloads": 0,
        },
    });
    let required = [
        "/metadata",
        "/spec",
        "/status/conditions/*/status",
        "/status/conditions/*/type",
    ];
    // The plan interprets empty parts of the spec.
    let significant = ["/spec/**", "/status"];
    let validated: Vec<&str> = TIMES
        .into_iter()
        .chain(["/status/phase", "/status/conditions/*/lastTransitionTime"])
        .collect();
    check(&Decoder {
        name: "KubeVirt",
        sample,
        decode: &|value: &Value| {
            let kubevirt = decode::from_value_ref::<KubeVirt>(value);
            Ok(describe(&kubevirt.map_err(|error| error.to_string())?))
        },
        required: &required,
        significant: &significant,
        validated: &validated,
        // Untyped parts: KubeVirt's schema has no field that may be null there.
        never_null: &[
            "/spec/configuration/**",
            "/spec/customizeComponents/flags/api/**",
            "/spec/infra/nodePlacement/nodeSelector/**",
        ],
    });
}
