//! Scenarios with the strategies of real KubeVirt releases: the strategy Job answers with what each
//! release's own operator writes as its install strategy.
//!
//! The strategies are not part of the repository: `KUBEVIRT_OPERATOR_DATA` names the folder with
//! `kubevirt/strategy` and `kubevirt/v1.9.0/rbac.operator.yaml`.

mod comparison;
mod crashes;
mod guest;
mod lifecycle;
mod rights;
mod rollback;
mod strategy_files;

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use sandbox::{Setup, Strategies};
use serde_json::{Value, json};

use crate::scenario::InstallScenario;

/// Folder of the releases' data.
fn data_folder() -> PathBuf {
    let folder = std::env::var_os("KUBEVIRT_OPERATOR_DATA");
    PathBuf::from(
        folder.expect("KUBEVIRT_OPERATOR_DATA names the folder with the data of releases"),
    )
    .join("kubevirt")
}

/// Strategy of a release, if its file exists.
fn strategy_of(data_folder: &Path, version: &str) -> Option<String> {
    let packed =
        std::fs::read(data_folder.join(format!("strategy/{version}-default.yaml.gz"))).ok()?;
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(packed.as_slice());
    unpacked.read_to_string(&mut text).unwrap();
    Some(text)
}

/// Setup whose strategy Jobs answer with the strategies of the releases.
fn with_released_strategies(data_folder: &Path) -> impl FnOnce(&mut Setup) + use<> {
    let data_folder = data_folder.to_owned();
    move |setup| {
        setup.strategies = Strategies::new(move |version, config: &Value| {
            let text = strategy_of(&data_folder, version)?;
            let registry = config["registry"].as_str()?;
            Some(text.replace("quay.io/kubevirt", registry))
        });
    }
}

/// Requests another release, and waits until it is deployed.
async fn upgrade_to(scenario: &InstallScenario, version: &str) {
    scenario.patch_spec(json!({ "imageTag": version })).await;
    scenario.until_deployed(version).await;
}
