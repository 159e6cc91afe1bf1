//! Install strategies in files.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use api::kubevirt::install;
use flate2::read::MultiGzDecoder;
use k8s_openapi::api::core::v1::ConfigMap;
use plan::kubevirt::{
    Strategy,
    strategy::{MAX_BYTES, StrategyError, decode},
};
use serde_json::Value;

use super::strategies::StrategyFile;

/// Magic number of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("is not UTF-8 text: pass YAML documents, optionally compressed with gzip")]
    NotText,
    #[error("is not an install strategy: {0}")]
    Strategy(#[from] StrategyError),
    #[error(
        "does not contain its KubeVirt version: pass the ConfigMap that virt-operator of the release \
         writes, or keep the label app.kubernetes.io/version of its Deployments"
    )]
    NoVersion,
}

/// Reads an install strategy: YAML documents, optionally compressed, or the ConfigMap that KubeVirt's
/// virt-operator writes.
pub fn read(path: &Path) -> Result<StrategyFile, FileError> {
    let text = text(fs::read(path)?)?;
    let (strategy, version) = match config_map(&text) {
        Some(map) => {
            let annotations = map.metadata.annotations.unwrap_or_default();
            let text = decode(&map.data.unwrap_or_default(), &annotations)?;
            let version = annotations.get(install::STRATEGY_VERSION).cloned();
            (Strategy::parse(&text)?, version)
        }
        None => (Strategy::parse(&text)?, None),
    };
    let version = version.or_else(|| version_of(&strategy));
    Ok(StrategyFile {
        version: version.ok_or(FileError::NoVersion)?,
        strategy: Arc::new(strategy),
    })
}

fn text(bytes: Vec<u8>) -> Result<String, FileError> {
    let bytes = if bytes.starts_with(&GZIP) {
        let mut unpacked = Vec::new();
        // One byte more than allowed, so that a larger text is refused.
        let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
        let unpacking = MultiGzDecoder::new(bytes.as_slice());
        unpacking
            .take(most.saturating_add(1))
            .read_to_end(&mut unpacked)?;
        unpacked
    } else {
        bytes
    };
    String::from_utf8(bytes).map_err(|_| FileError::NotText)
}

/// The ConfigMap, if the text consists of exactly one. A strategy may contain ConfigMaps among others.
fn config_map(text: &str) -> Option<ConfigMap> {
    let is_one = text.contains("\"kind\"") || text.contains("kind: ConfigMap");
    if !is_one || !text.contains("manifests") {
        return None;
    }
    let map: Value = match serde_json::from_str(text) {
        Ok(map) => map,
        Err(_) => serde_saphyr::from_str(text).ok()?,
    };
    let map = Some(map).filter(|map| map["kind"] == "ConfigMap")?;
    serde_json::from_value(map).ok()
}

/// Version in the labels of Deployments and DaemonSets.
fn version_of(strategy: &Strategy) -> Option<String> {
    let mut workloads = strategy
        .objects
        .iter()
        .filter(|object| object.id.is("apps", "Deployment") || object.id.is("apps", "DaemonSet"));
    workloads.find_map(|object| {
        let value = object.value();
        let labels = ["/spec/template/metadata/labels", "/metadata/labels"];
        let mut labels = labels.iter().filter_map(|labels| value.pointer(labels));
        labels.find_map(|labels| Some(labels.get(install::VERSION)?.as_str()?.to_owned()))
    })
}
