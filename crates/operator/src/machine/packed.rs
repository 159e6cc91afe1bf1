//! Cached objects in serialized form.
//!
//! Decoded, the children of a Machine take three times the memory of their JSON, in many small
//! allocations. They are decoded when their Machine is reconciled; only what the stores need (key, UID,
//! version, Machine) is kept beside the JSON.

use std::marker::PhantomData;

use api::{ObjectMeta, labels};
use kube::Resource;
use runtime::cache::{Key, Trimmed};
use serde::{Serialize, de::DeserializeOwned};

/// Serialized child of a Machine.
pub(super) type Packed<T> = Trimmed<PackedObject<T>>;

#[derive(Debug)]
pub(super) struct PackedObject<T> {
    machine: Option<Key>,
    text: Box<[u8]>,
    object: PhantomData<fn() -> T>,
}

/// Serializes an object.
pub(super) fn pack<T: Resource + Serialize>(object: &T) -> Packed<T> {
    let packed = PackedObject {
        machine: machine_of(object.meta()),
        // Empty text cannot be decoded, and its Machine is then not reconciled.
        text: serde_json::to_vec(object).unwrap_or_default().into(),
        object: PhantomData,
    };
    Trimmed::new(object.meta(), packed)
}

impl<T: DeserializeOwned> PackedObject<T> {
    /// Decodes the object.
    pub(super) fn unpack(&self) -> Option<T> {
        self.read()
    }
}

impl<T> PackedObject<T> {
    /// Decodes a part of the object.
    pub(super) fn read<P: DeserializeOwned>(&self) -> Option<P> {
        decode::from_slice(&self.text).ok()
    }

    /// Machine in the label of the object.
    pub(super) fn machine(&self) -> Option<&Key> {
        self.machine.as_ref()
    }
}

/// Machine in the label of an object.
pub(super) fn machine_of(metadata: &ObjectMeta) -> Option<Key> {
    let machine = metadata.labels.as_ref()?.get(labels::MACHINE)?;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    Some(Key::new(namespace, machine))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use api::kubevirt::{ObservedInstance, ObservedVirtualMachine};
    use runtime::cache::CachedObject as _;
    use serde_json::{Value, json};

    use super::*;

    fn object(rest: &Value) -> Value {
        let mut object = json!({
            "metadata": {
                "name": "a", "namespace": "b", "uid": "c", "resourceVersion": "17",
                "creationTimestamp": "2026-01-02T03:04:05Z", "labels": { "vitistack.io/machine": "d" },
            },
        });
        for (name, value) in rest.as_object().unwrap() {
            object[name] = value.clone();
        }
        object
    }

    fn assert_round_trip<T>(rest: &Value)
    where
        T: Resource + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let object: T = serde_json::from_value(object(rest)).unwrap();
        let packed = pack(&object);
        assert_eq!(packed.key(), Key::new("b", "a"));
        assert_eq!(
            (packed.uid(), packed.version()),
            (Some("c"), NonZeroU64::new(17))
        );
        assert_eq!(packed.machine(), Some(&Key::new("b", "d")));
        assert_eq!(packed.unpack().unwrap(), object);
    }

    #[test]
    fn packed_objects_are_decoded_unchanged() {
        let conditions = json!([
            { "type": "Ready", "status": "False", "reason": "No", "message": "Not yet.",
              "lastTransitionTime": null },
            { "type": "Paused", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z" },
        ]);
        assert_round_trip::<ObservedVirtualMachine>(&json!({
            "spec": { "runStrategy": "Always", "template": { "spec": { "volumes": [] } } },
            "status": { "printableStatus": "Running", "conditions": conditions,
                        "startFailure": { "consecutiveFailCount": 3 } },
        }));
        assert_round_trip::<ObservedInstance>(&json!({
            "status": { "phase": "Failed", "nodeName": "e", "conditions": conditions,
                        "interfaces": [{ "name": "f", "ipAddress": "10.0.0.1" }],
                        "volumeStatus": [{ "name": "g" }] },
        }));
        assert_round_trip::<api::core::ObservedClaim>(&json!({
            "spec": { "storageClassName": "h", "accessModes": ["ReadWriteOnce"],
                      "resources": { "requests": { "storage": "1Gi" } } },
            "status": { "phase": "Bound", "capacity": { "storage": "1Gi" } },
        }));
        assert_round_trip::<api::cdi::ObservedDataVolume>(&json!({
            "spec": { "storage": {} }, "status": { "phase": "Succeeded", "conditions": conditions },
        }));
    }
}
