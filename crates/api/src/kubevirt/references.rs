//! References of VirtualMachines and VirtualMachineInstances to claims.
//!
//! A reference is the value of any field `claimName`, and the `name` in any field `dataVolume`, anywhere
//! in `spec` and `status`. This covers volumes, hot-plug requests, memory dumps, volume migrations and
//! later additions with these field names. Everything else is skipped while parsing.

use std::collections::{BTreeMap, BTreeSet};

use decode::walk::{Walk, Walker};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed as _, MapAccess, SeqAccess},
};

use crate::{ObjectMeta, OwnerReference, Time, labels};

/// One page of a list.
#[derive(Debug, Default, Deserialize)]
pub struct ReferrerList {
    #[serde(default)]
    metadata: Option<ListMetadata>,
    #[serde(default)]
    items: Option<Vec<Referrer>>,
}

impl ReferrerList {
    /// The continue token, unless this is the last page.
    pub fn next_page(&self) -> Option<&str> {
        let metadata = self.metadata.as_ref()?;
        let token = metadata.continue_token.as_deref();
        token.filter(|token| !token.is_empty())
    }

    pub fn items(self) -> Vec<Referrer> {
        self.items.unwrap_or_default()
    }
}

#[derive(Debug, Default, Deserialize)]
struct ListMetadata {
    #[serde(rename = "continue", default)]
    continue_token: Option<String>,
}

/// A VirtualMachine or VirtualMachineInstance, and the claims that it refers to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Referrer {
    /// Name, namespace, UID, owners, deletion timestamp, and the annotation with the Machine's UID.
    pub metadata: ObjectMeta,
    /// Names of claims. A DataVolume has a claim of the same name.
    pub claims: BTreeSet<String>,
}

impl<'de> Deserialize<'de> for Referrer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Parts {
            metadata: Metadata,
            #[serde(default)]
            spec: Claims,
            #[serde(default)]
            status: Claims,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            name: Option<String>,
            namespace: Option<String>,
            uid: Option<String>,
            annotations: Option<BTreeMap<String, String>>,
            owner_references: Option<Vec<OwnerReference>>,
            deletion_timestamp: Option<Time>,
        }
        let Parts {
            metadata,
            spec,
            status,
        } = Parts::deserialize(deserializer)?;
        let mut claims = spec.0;
        claims.extend(status.0);
        let annotations = metadata.annotations.map(|mut annotations| {
            annotations.retain(|name, _| name == labels::MACHINE_UID);
            annotations
        });
        Ok(Self {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                annotations,
                owner_references: metadata.owner_references,
                deletion_timestamp: metadata.deletion_timestamp,
                ..ObjectMeta::default()
            },
            claims,
        })
    }
}

/// The claims that a part of an object refers to.
#[derive(Default)]
struct Claims(BTreeSet<String>);

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut claims = Self::default();
        let root = Search {
            found: &mut claims.0,
            field: Field::Other,
        };
        Walker(root).deserialize(deserializer)?;
        Ok(claims)
    }
}

/// Meaning of a value, by its field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    ClaimName,
    DataVolume,
    Other,
}

struct Search<'a> {
    found: &'a mut BTreeSet<String>,
    field: Field,
}

impl Walk for Search<'_> {
    fn visit_map<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let field = match (self.field, name.as_str()) {
                (_, "claimName") | (Field::DataVolume, "name") => Field::ClaimName,
                (_, "dataVolume") => Field::DataVolume,
                _ => Field::Other,
            };
            map.next_value_seed(Walker(Search {
                found: &mut *self.found,
                field,
            }))?;
        }
        Ok(())
    }

    fn visit_list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        loop {
            let item = Walker(Search {
                found: &mut *self.found,
                field: self.field,
            });
            if items.next_element_seed(item)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_string<E>(self, text: &str) -> Result<(), E> {
        if self.field == Field::ClaimName && !text.is_empty() {
            self.found.insert(text.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(object: serde_json::Value) -> Vec<String> {
        let referrer: Referrer = serde_json::from_value(object).unwrap();
        referrer.claims.into_iter().collect()
    }

    #[test]
    fn every_way_to_refer_to_a_claim_is_found() {
        let vm = json!({
            "metadata": { "name": "web", "managedFields": [{ "fieldsV1": { "claimName": "no" } }] },
            "spec": {
                "dataVolumeTemplates": [{ "metadata": { "name": "template" } }],
                "template": { "spec": { "volumes": [
                    { "name": "a", "persistentVolumeClaim": { "claimName": "claim" } },
                    { "name": "b", "dataVolume": { "name": "volume", "hotpluggable": true } },
                    { "name": "c", "ephemeral": { "persistentVolumeClaim": { "claimName": "ephemeral" } } },
                    { "name": "d", "memoryDump": { "claimName": "dump" } },
                    { "name": "e", "cloudInitNoCloud": { "secretRef": { "name": "secret" } } },
                ], "utilityVolumes": [{ "claimName": "utility" }] } },
            },
            "status": {
                "volumeRequests": [{ "addVolumeOptions": { "name": "f", "volumeSource":
                    { "persistentVolumeClaim": { "claimName": "requested" } } } }],
                "volumeUpdateState": { "volumeMigrationState": { "migratedVolumes": [
                    { "destinationPVCInfo": { "claimName": "destination" } }] } },
            },
        });
        assert_eq!(
            claims(vm),
            [
                "claim",
                "destination",
                "dump",
                "ephemeral",
                "requested",
                "utility",
                "volume"
            ]
        );
    }

    #[test]
    fn a_volume_that_is_being_unplugged_still_counts() {
        let instance = json!({
            "metadata": { "name": "web" },
            "spec": { "volumes": null },
            "status": { "volumeStatus": [
                { "name": "data", "persistentVolumeClaimInfo": { "claimName": "web-data" } }] },
        });
        assert_eq!(claims(instance), ["web-data"]);
    }

    #[test]
    fn null_absent_and_empty_are_the_same() {
        for list in [
            json!({}),
            json!({ "metadata": null, "items": null }),
            json!({ "metadata": { "continue": "" }, "items": [] }),
        ] {
            let list: ReferrerList = serde_json::from_value(list).unwrap();
            assert_eq!(list.next_page(), None);
            assert_eq!(list.items(), []);
        }
        for object in [
            json!({ "metadata": { "name": "a" } }),
            json!({ "metadata": { "name": "a" }, "spec": null, "status": null }),
            json!({ "metadata": { "name": "a" }, "spec": {}, "status": {} }),
        ] {
            assert_eq!(claims(object), Vec::<String>::new());
        }
    }
}
