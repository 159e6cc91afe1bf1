//! Simulation of `virt-operator --dump-install-strategy`: writes the install strategy of a KubeVirt
//! release to a ConfigMap.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::{
    kubevirt::Strategies,
    object::{list, text},
};

const STEM: &str = "kubevirt-install-strategy-";

pub(super) struct Dump<'a> {
    strategies: &'a Strategies,
    version: String,
    /// Decoded deployment configuration; `None` if it cannot be decoded.
    config: Option<Value>,
}

impl<'a> Dump<'a> {
    /// The dump that a pod runs, if any.
    pub fn of(pod: &Value, strategies: &'a Strategies) -> Option<Self> {
        let container = list(pod, "/spec/containers")
            .iter()
            .find(|container| is_dump(list(container, "/command")))?;
        let env = list(container, "/env").iter();
        let given = env
            .filter(|variable| text(variable, "/name") == "TARGET_DEPLOYMENT_CONFIG")
            .map(|variable| text(variable, "/value"))
            .next()
            .unwrap_or_default();
        let config: Option<Value> = serde_json::from_str(given).ok();
        let wanted = config
            .as_ref()
            .map_or("", |config| text(config, "/kubeVirtVersion"));
        let version = if wanted.is_empty() {
            tag(text(container, "/image"))
        } else {
            wanted
        };
        Some(Self {
            strategies,
            version: version.to_owned(),
            config,
        })
    }

    pub fn has_image(&self) -> bool {
        let config = self.config.as_ref().unwrap_or(&Value::Null);
        self.strategies.get(&self.version, config).is_some()
    }

    /// 0, or 1 if the configuration cannot be decoded.
    pub fn exit_code(&self) -> i64 {
        i64::from(self.config.is_none())
    }

    /// The resulting ConfigMap. `namespace` applies if the configuration names none.
    pub fn config_map(&self, namespace: &str, suffix: &str) -> Option<Value> {
        let config = self.config.as_ref()?;
        let strategy = self.strategies.get(&self.version, config)?;
        let namespace = match text(config, "/namespace") {
            "" => namespace,
            wanted => wanted,
        };
        Some(json!({
            "metadata": {
                "generateName": STEM,
                "name": format!("{STEM}{suffix}"),
                "namespace": namespace,
                "labels": {
                    "app.kubernetes.io/managed-by": "virt-operator",
                    "kubevirt.io/install-strategy": "",
                },
                "annotations": {
                    "kubevirt.io/install-strategy-version": self.version,
                    "kubevirt.io/install-strategy-registry": text(config, "/registry"),
                    "kubevirt.io/install-strategy-identifier": text(config, "/id"),
                    "kubevirt.io/install-strategy-cm-encoding": "gzip+base64",
                },
            },
            "data": {"manifests": packed(&strategy)?},
        }))
    }
}

fn is_dump(command: &[Value]) -> bool {
    command.len() == 2
        && command
            .first()
            .is_some_and(|program| program == "virt-operator")
        && command
            .last()
            .is_some_and(|flag| flag == "--dump-install-strategy")
}

/// Tag of an image; empty if it is referenced by digest.
fn tag(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or_default();
    if name.contains('@') {
        return "";
    }
    name.split_once(':').map_or("", |(_, tag)| tag)
}

fn packed(text: &str) -> Option<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).ok()?;
    Some(STANDARD.encode(encoder.finish().ok()?))
}
