//! Stories of the releases of KubeVirt themselves: the dump Job answers with what each release's own
//! operator writes as its install strategy.
//!
//! Their strategies are not part of the repository: `KUBEVIRT_OPERATOR_DATA` names the folder that
//! holds `kubevirt/strategy` and `kubevirt/v1.9.0/rbac.operator.yaml`.

mod crashes;
mod given;
mod guest;
mod life;
mod rights;
mod rollback;
mod world;

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use sandbox::{Setup, Strategies};
use serde_json::{Value, json};

use crate::ground::Ground;

/// The folder with what is known of the releases, if there is one.
fn data() -> PathBuf {
    let data = std::env::var_os("KUBEVIRT_OPERATOR_DATA");
    PathBuf::from(data.expect("KUBEVIRT_OPERATOR_DATA names the folder with the data of releases"))
        .join("kubevirt")
}

/// The strategy of a release, if it is known.
fn text_of(data: &Path, version: &str) -> Option<String> {
    let packed = std::fs::read(data.join(format!("strategy/{version}-default.yaml.gz"))).ok()?;
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(packed.as_slice());
    unpacked.read_to_string(&mut text).unwrap();
    Some(text)
}

/// A cluster whose dump Jobs answer with the releases' own strategies.
fn released(data: &Path) -> impl FnOnce(&mut Setup) + use<> {
    let data = data.to_owned();
    move |setup| {
        setup.strategies = Strategies::new(move |version, config: &Value| {
            let text = text_of(&data, version)?;
            let registry = config["registry"].as_str()?;
            Some(text.replace("quay.io/kubevirt", registry))
        });
    }
}

/// Asks for another release, and waits until it is deployed.
async fn change_to(ground: &Ground, version: &str) {
    ground.change(json!({ "imageTag": version })).await;
    ground.until_deployed(version).await;
}
