//! Data of KubeVirt releases: fixtures of our own, and the real data.
//!
//! The fixtures have the kinds and names of the real objects, with small contents of our own. The real data
//! is not part of the repository: `KUBEVIRT_OPERATOR_DATA` names the folder that contains it. Tests of both
//! have the same assertions: the case `fixtures` always runs, the case `real_data` is ignored by default.
#![allow(clippy::disallowed_methods, reason = "tests read the real data")]
#![allow(dead_code, reason = "each test target needs a part of it")]

mod facts;
mod names;
mod objects;
mod rbac;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{Read as _, Write as _},
    path::PathBuf,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use names::Release;

/// Recording of the sandbox's actors.
const LIFECYCLE: &str = include_str!("../../../sandbox/actors/tests/lifecycle/vm-lifecycle.jsonl");

/// Where the data of a release comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Fixtures,
    RealData,
}

/// Objects of an install strategy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inventory {
    /// Names by kind, with the namespace: `kubevirt/virt-api`.
    pub(crate) names: BTreeMap<String, BTreeSet<String>>,
    pub(crate) api_versions: BTreeMap<String, String>,
    /// Documents of the strategy, also those that repeat an object.
    pub(crate) documents: usize,
    pub(crate) duplicates: usize,
}

impl Source {
    /// Install strategy as YAML documents. A variant is `default`, `monitoring` (with Prometheus objects) or
    /// `allgates` (that, and all feature gates).
    pub(crate) fn strategy(self, version: &str, variant: &str) -> String {
        if self == Self::Fixtures {
            return objects::strategy(&Release::of(version, variant));
        }
        let packed = real_data().join(format!("strategy/{version}-{variant}.yaml.gz"));
        let packed = fs::read(packed).unwrap();
        let mut text = String::new();
        let mut unpacked = flate2::read::GzDecoder::new(packed.as_slice());
        unpacked.read_to_string(&mut text).unwrap();
        text
    }

    pub(crate) fn inventory(self, version: &str, variant: &str) -> Inventory {
        if self == Self::Fixtures {
            return names::inventory(&Release::of(version, variant));
        }
        let data = read_json("inventory.json");
        let release = &data["releases"][version][variant];
        let count = |field: &str| release[field].as_array().unwrap().len();
        let names = release["objects"].as_object().unwrap().iter();
        let names = names.map(|(kind, names)| {
            let names = names.as_array().unwrap().iter();
            let names = names.map(|name| name.as_str().unwrap().to_owned());
            (kind.clone(), names.collect())
        });
        Inventory {
            names: names.collect(),
            api_versions: serde_json::from_value(data["gvk_by_kind"].clone()).unwrap(),
            documents: usize::try_from(release["documents"].as_u64().unwrap()).unwrap(),
            duplicates: count("duplicates"),
        }
    }

    /// ConfigMap in which virt-operator stores the install strategy.
    pub(crate) fn config_map(self, version: &str) -> Value {
        if self == Self::RealData {
            return read_json(&format!(
                "fixtures/install-strategy-configmap-{version}.json"
            ));
        }
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let text = self.strategy(version, "default");
        packed.write_all(text.as_bytes()).unwrap();
        json!({
            "metadata": { "annotations": { "kubevirt.io/install-strategy-cm-encoding": "gzip+base64" } },
            "data": { "manifests": STANDARD.encode(packed.finish().unwrap()) },
        })
    }

    /// Deployments and DaemonSets of v1.9.0.
    pub(crate) fn components(self) -> Vec<Value> {
        match self {
            Self::Fixtures => objects::components(&Release::of("v1.9.0", "default")),
            Self::RealData => documents(&read("v1.9.0/workloads.default.yaml")),
        }
    }

    /// Roles of KubeVirt's virt-operator in v1.8.4 or v1.9.0.
    pub(crate) fn operator_roles(self, version: &str) -> Vec<Value> {
        if self == Self::Fixtures {
            return rbac::operator_roles(&Release::of(version, "default"));
        }
        if version == "v1.9.0" {
            return documents(&read("v1.9.0/rbac.operator.yaml"));
        }
        let text = read(&format!("fixtures/rbac.operator-{version}.yaml.in"));
        let text = text.replace("{{.Namespace}}", "kubevirt");
        let text: Vec<_> = text.lines().filter(|line| !line.contains("{{")).collect();
        documents(&text.join("\n"))
    }

    /// Secrets with certificates: `secret`, `type`, `CN` and `dnsNames`, in namespace `NS`.
    pub(crate) fn certificates(self) -> Vec<Value> {
        match self {
            Self::Fixtures => facts::certificates(),
            Self::RealData => {
                let facts = read_json("certificates.json");
                facts["secrets"].as_array().unwrap().clone()
            }
        }
    }

    /// States of feature gates by release. The fixtures have some gates, the real data all.
    pub(crate) fn gates(self) -> BTreeMap<String, BTreeMap<String, String>> {
        match self {
            Self::Fixtures => facts::gates(),
            Self::RealData => {
                let gates = read_json("feature-gates.json");
                serde_json::from_value(gates["gates"].clone()).unwrap()
            }
        }
    }

    /// Watch events of a virtual machine's life: `t` in seconds, `type` and `object`.
    pub(crate) fn lifecycle(self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap();
        if self == Self::RealData {
            let lines = read("transcripts/vm-lifecycle-v1.9.0.jsonl");
            return lines.lines().map(parse).collect();
        }
        // An event has a merge patch of the last object of its kind.
        let mut last: BTreeMap<String, Value> = BTreeMap::new();
        let events = LIFECYCLE.lines().map(|line| {
            let mut event: Value = parse(line);
            let object = last.entry(event["kind"].to_string()).or_default();
            if event["type"] == "ADDED" {
                *object = Value::Null;
            }
            merge::merge_patch::apply(object, &event["patch"]);
            event["object"] = object.clone();
            event
        });
        let events = events.filter(|event| event["kind"] != "ControllerRevision");
        events.collect()
    }
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

fn read_json(file: &str) -> Value {
    serde_json::from_str(&read(file)).unwrap()
}

fn read(file: &str) -> String {
    let path = real_data().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn real_data() -> PathBuf {
    let data = env::var_os("KUBEVIRT_OPERATOR_DATA");
    PathBuf::from(data.expect("KUBEVIRT_OPERATOR_DATA names the folder with the data of releases"))
        .join("kubevirt")
}
