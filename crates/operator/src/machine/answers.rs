//! Test of the types that the Machine operator decodes: null, absent and empty mean the same.

use api::{
    Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
    cdi::ObservedDataVolume,
    core::{ConfigMap, ObservedClaim, Secret, StorageClass},
    kubevirt::{ObservedInstance, ObservedVirtualMachine, ReferrerList},
    multus::NetworkAttachmentDefinition,
};
use decode::testing::{Decoder, check, describe};
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::PartialObjectMeta;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use plan::machine::PassedOn;

use super::{packed::Packed, slim::Slim};

/// Metadata as a kube-apiserver sends it.
pub(crate) fn metadata() -> Value {
    json!({
        "name": "web", "namespace": "team-a", "uid": "0c8a6a8e-7a6b-4ab8-8a39-2a1ef6a8a001",
        "resourceVersion": "4711", "generation": 3, "creationTimestamp": "2026-11-16T02:00:00Z",
        "deletionTimestamp": "2026-11-16T03:00:00Z", "deletionGracePeriodSeconds": 30,
        "labels": {"app": "web"}, "annotations": {"example.com/note": "a"},
        "finalizers": ["example.com/keep"], "selfLink": "/apis", "generateName": "web-",
        "ownerReferences": [{
            "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "name": "web",
            "uid": "0c8a6a8e-7a6b-4ab8-8a39-2a1ef6a8a002", "controller": true,
            "blockOwnerDeletion": true,
        }],
        "managedFields": [{
            "manager": "kubectl", "operation": "Update", "apiVersion": "v1", "subresource": "status",
            "time": "2026-11-16T02:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}},
        }],
    })
}

fn conditions() -> Value {
    json!([{
        "type": "Ready", "status": "True", "reason": "Running", "message": "it runs",
        "lastTransitionTime": "2026-11-16T02:00:00Z", "lastProbeTime": "2026-11-16T02:00:00Z",
        "observedGeneration": 3,
    }])
}

/// Texts whose form the API server checks.
const TIMES: [&str; 4] = [
    "/metadata/creationTimestamp",
    "/metadata/deletionTimestamp",
    "/metadata/managedFields/*/time",
    "/status/conditions/*/lastTransitionTime",
];

/// A kind as a watch decodes it.
fn is_decoded<T>(sample: Value, required: &[&str], significant: &[&str], validated: &[&str])
where
    T: DeserializeOwned + std::fmt::Debug,
{
    is_decoded_but_for::<T>(sample, required, significant, validated, &[]);
}

fn is_decoded_but_for<T>(
    sample: Value,
    required: &[&str],
    significant: &[&str],
    validated: &[&str],
    never_null: &[&str],
) where
    T: DeserializeOwned + std::fmt::Debug,
{
    let decode = |value: &Value| {
        let text = value.to_string();
        let object = decode::from_str::<T>(&text).map_err(|error| error.to_string())?;
        Ok(describe(&object))
    };
    let validated: Vec<&str> = validated.iter().chain(&TIMES).copied().collect();
    check(&Decoder {
        name: std::any::type_name::<T>(),
        sample,
        decode: &decode,
        required,
        significant,
        validated: &validated,
        never_null,
    });
}

/// A kind that is cached as text, and decoded again from there.
fn is_cached<T>(sample: Value, required: &[&str], significant: &[&str], validated: &[&str])
where
    T: DeserializeOwned + Serialize + kube::Resource + std::fmt::Debug + Slim<Kept = Packed<T>>,
{
    let decode = |value: &Value| {
        let object = decode::from_value_ref::<T>(value).map_err(|error| error.to_string())?;
        let cached = object
            .slim(&PassedOn::none())
            .unpack()
            .ok_or("not decoded from the cache")?;
        Ok(describe(&cached))
    };
    let all: Vec<&str> = validated.iter().chain(&TIMES).copied().collect();
    check(&Decoder {
        name: std::any::type_name::<Packed<T>>(),
        sample: sample.clone(),
        decode: &decode,
        required,
        significant,
        validated: &all,
        never_null: &[],
    });
    is_decoded::<T>(sample, required, significant, validated);
}

#[test]
fn machines() {
    let text = include_str!("../../../../examples/machine-every-field.yaml");
    let documents = serde_saphyr::from_multiple::<Value>(text).unwrap();
    let mut sample = documents
        .into_iter()
        .find(|document| document["kind"] == "Machine")
        .unwrap();
    sample["metadata"] = metadata();
    sample["status"] = json!({
        "phase": "Running", "state": "Running", "provider": "kubevirt", "failureReason": "a",
        "failureMessage": "b", "conditions": conditions(), "observedGeneration": 3,
        "vmName": "web", "machineID": "c", "vmiName": "web", "ipAddresses": ["10.0.0.7"],
        "publicIPAddresses": ["10.0.0.7"], "privateIPAddresses": ["10.1.0.7"],
        "ipv6Addresses": ["fd00::7"], "hostname": "web", "operatingSystem": "Debian",
        "nodeName": "node-1", "vcpus": 2, "cpus": 2, "memory": "4Gi", "memoryQuantity": "4Gi",
        "requestedVcpus": 2, "requestedMemory": "4Gi", "lastUpdated": "2026-11-16T02:00:00Z",
        "resourceVersion": "7",
        "networkInterfaces": [{
            "name": "default", "macAddress": "02:00:00:00:00:01", "ipAddresses": ["10.0.0.7"],
            "ipv6Addresses": ["fd00::7"], "state": "up", "type": "domain",
        }],
        "disks": [{
            "name": "root", "pvcName": "web-root", "uuid": "d", "size": 1, "device": "vda",
        }],
    });
    is_decoded_but_for::<Machine>(
        sample,
        &[
            "/metadata",
            "/spec",
            "/spec/cloudInit/secretRef/name",
            "/spec/disks/*/name",
            "/spec/disks/*/source/http/url",
            "/spec/disks/*/source/ref/name",
            "/spec/domain/gpus/*/deviceName",
            "/spec/domain/gpus/*/name",
            "/spec/domain/hostDevices/*/deviceName",
            "/spec/domain/hostDevices/*/name",
            "/spec/networks/*/name",
            "/spec/spreadBy/topologyKey",
            "/spec/sshKeySecrets/*/name",
            "/status/disks/*/name",
        ],
        // A guest that ran without addresses has an empty list.
        &["/spec/**", "/status", "/status/ipAddresses"],
        // The schema has bounds, and lists words.
        &[
            "/spec/**",
            "/status/phase",
            "/status/memory",
            "/status/lastUpdated",
        ],
        &[
            "/spec/nodeSelector/disktype",
            "/status/conditions/*/lastTransitionTime",
        ],
    );
}

#[test]
fn machine_classes() {
    let sample = json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "MachineClass", "metadata": metadata(),
        "spec": {
            "cpu": {"cores": 2, "sockets": 1, "threads": 1}, "memory": {"quantity": "4Gi"},
            "disks": [{"name": "root", "size": "20Gi"}],
        },
        "status": {"conditions": conditions()},
    });
    is_decoded_but_for::<MachineClass>(
        sample,
        &[
            "/metadata",
            "/spec",
            "/spec/cpu/cores",
            "/spec/disks/*/name",
            "/spec/disks/*/size",
        ],
        &["/spec/**", "/status"],
        &["/spec/**"],
        &[
            "/spec/cpu",
            "/spec/memory/**",
            "/status/conditions/*/lastTransitionTime",
        ],
    );
}

#[test]
fn network_configurations() {
    let sample = json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkConfiguration",
        "metadata": metadata(),
        "spec": {
            "bridge": "br0", "vlan": 12, "name": "web", "provider": "kea",
            "networkNamespaceName": "tenant", "networkInterfaces": [interface()],
        },
        "status": {
            "conditions": conditions(), "phase": "Ready", "status": "Success", "message": "a",
            "created": "b", "users": ["web"], "observedGeneration": 3,
            "networkInterfaces": [interface()],
        },
    });
    is_decoded_but_for::<NetworkConfiguration>(
        sample,
        &["/metadata", "/spec"],
        &["/spec/**", "/status"],
        &["/spec/**", "/status/networkInterfaces/*/allocationMethod"],
        &["/status/conditions/*/lastTransitionTime"],
    );
}

/// An interface of an address ledger.
fn interface() -> Value {
    json!({
        "name": "vlan42", "macAddress": "02:00:00:00:00:01", "ipv4Addresses": ["10.0.0.7"],
        "ipv4Subnet": "10.0.0.0/24", "ipv4Gateway": "10.0.0.1", "ipv6Addresses": ["fd00::7"],
        "ipv6Subnet": "fd00::/64", "ipv6Gateway": "fd00::1", "dns": ["10.0.0.2"], "vlan": "42",
        "dhcpReserved": true, "ipAllocated": true, "allocationMethod": "dhcp",
        "allocationExpiry": "2026-11-16T02:00:00Z",
    })
}

#[test]
fn network_namespaces() {
    let sample = json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "NetworkNamespace", "metadata": metadata(),
        "spec": {"ipAllocation": {
            "type": "static", "provider": "static-ip-operator", "static": {"vlanId": 42},
        }},
        "status": {"vlanId": 42, "ipv4Prefix": "10.0.0.0/24"},
    });
    is_decoded_but_for::<NetworkNamespace>(
        sample,
        &["/metadata", "/spec", "/spec/ipAllocation/type"],
        &["/spec/ipAllocation", "/spec/ipAllocation/static", "/status"],
        &["/spec/ipAllocation", "/spec/ipAllocation/type"],
        &[],
    );
}

#[test]
fn virtual_machines() {
    let sample = json!({
        "metadata": metadata(),
        "spec": {"runStrategy": "Always", "template": {"metadata": {}, "spec": {}}},
        "status": {
            "printableStatus": "Running", "conditions": conditions(), "created": true, "ready": true,
            "startFailure": {"consecutiveFailCount": 2}, "volumeSnapshotStatuses": [],
        },
    });
    is_cached::<ObservedVirtualMachine>(
        sample,
        &["/metadata"],
        &["/spec/**", "/status/startFailure"],
        &[],
    );
}

#[test]
fn instances() {
    let sample = json!({
        "metadata": metadata(),
        "spec": {"domain": {"memory": {"guest": "1Gi"}}},
        "status": {
            "phase": "Running", "nodeName": "node-1", "evacuationNodeName": "node-1",
            "conditions": conditions(), "volumeStatus": [{"name": "root", "target": "vda"}],
            "interfaces": [{
                "name": "default", "ipAddress": "10.0.0.7", "ipAddresses": ["10.0.0.7"],
                "mac": "02:00:00:00:00:01", "infoSource": "domain", "linkState": "up",
            }],
            "guestOSInfo": {"name": "Debian", "version": "12", "prettyName": "Debian 12"},
            "currentCPUTopology": {"cores": 2, "sockets": 1, "threads": 1},
        },
    });
    is_cached::<ObservedInstance>(
        sample,
        &["/metadata"],
        &[
            "/spec/**",
            "/status/guestOSInfo",
            "/status/currentCPUTopology",
        ],
        &[],
    );
}

#[test]
fn claims() {
    let sample = json!({
        "metadata": metadata(),
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "volumeName": "pv-1",
            "storageClassName": "standard", "resources": {"requests": {"storage": "20Gi"}},
        },
        "status": {
            "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "20Gi"},
            "conditions": conditions(),
        },
    });
    is_cached::<ObservedClaim>(
        sample,
        &["/metadata", "/spec"],
        // "" is a claim without a class.
        &["/spec/storageClassName"],
        &["/spec", "/spec/volumeMode"],
    );
}

#[test]
fn data_volumes() {
    let sample = json!({
        "metadata": metadata(),
        "spec": {"source": {"http": {"url": "https://a"}}, "storage": {"accessModes": []}},
        "status": {
            "phase": "ImportInProgress", "progress": "5%", "restartCount": 2,
            "conditions": conditions(),
        },
    });
    is_cached::<ObservedDataVolume>(sample, &["/metadata"], &["/spec/**"], &[]);
}

#[test]
fn storage_classes_secrets_config_maps_and_attachments() {
    let sample = json!({ "metadata": metadata(), "allowVolumeExpansion": true });
    is_decoded::<StorageClass>(sample, &["/metadata"], &[], &[]);
    let sample = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata(), "type": "Opaque",
        "data": {"userdata": "YQ=="}, "stringData": {"a": "b"},
    });
    is_decoded::<Secret>(sample, &["/metadata"], &["/stringData/a"], &[]);
    let sample = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(),
        "data": {"userdata": "a"}, "binaryData": {},
    });
    is_decoded::<ConfigMap>(sample, &["/metadata"], &[], &[]);
    let sample = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": metadata(), "spec": {"config": "{}"},
    });
    is_decoded::<NetworkAttachmentDefinition>(
        sample,
        &["/metadata", "/spec", "/spec/config"],
        &[],
        &[],
    );
}

#[test]
fn metadata_of_any_kind() {
    let sample = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata(),
    });
    is_decoded::<PartialObjectMeta>(sample, &[], &["/metadata", "/apiVersion", "/kind"], &[]);
}

#[test]
fn leases() {
    let sample = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata(),
        "spec": {
            "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 1,
            "acquireTime": "2026-11-16T02:00:00.000000Z", "renewTime": "2026-11-16T02:00:00.000000Z",
        },
    });
    // The client of the Lease decodes strictly; the type itself accepts null.
    let decode = |value: &Value| {
        let lease = serde_json::from_value::<Lease>(value.clone());
        let lease = lease.map_err(|error| error.to_string())?;
        Ok(describe(&lease))
    };
    let validated: Vec<&str> = TIMES
        .into_iter()
        .chain([
            "/apiVersion",
            "/kind",
            "/spec/acquireTime",
            "/spec/renewTime",
        ])
        .collect();
    check(&Decoder {
        name: "Lease",
        sample,
        decode: &decode,
        required: &[],
        significant: &["/spec", "/metadata/**"],
        validated: &validated,
        never_null: &["/apiVersion", "/kind"],
    });
}

#[test]
fn references_to_claims() {
    let sample = json!({
        "metadata": {"resourceVersion": "7", "continue": "abc", "remainingItemCount": 3},
        "items": [{
            "metadata": metadata(),
            "spec": {"template": {"spec": {"volumes": [
                {"name": "root", "dataVolume": {"name": "a"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "b"}},
            ]}}},
            "status": {"volumeRequests": [{"addVolumeOptions": {"name": "c"}}]},
        }],
    });
    is_decoded::<ReferrerList>(
        sample,
        &["/items/*/metadata"],
        &["/metadata"],
        &["/items/*/metadata/deletionTimestamp"],
    );
}
