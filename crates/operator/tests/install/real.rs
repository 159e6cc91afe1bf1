//! The releases as they are, from their own install strategies.

use std::{fs, io::Read as _};

use flate2::read::GzDecoder;
use sandbox::Strategies;
use serde_json::{Value, json};

use crate::{
    census::census,
    ground::{Ground, NAME, tell},
};

/// The strategies of releases, from the folder that the environment names.
fn strategies() -> Option<Strategies> {
    let Ok(folder) = std::env::var("KUBEVIRT_OPERATOR_DATA") else {
        println!("SKIPPED: KUBEVIRT_OPERATOR_DATA is not set");
        return None;
    };
    Some(Strategies::new(move |version, config: &Value| {
        let path = format!("{folder}/kubevirt/strategy/{version}-default.yaml.gz");
        let packed = fs::read(path).ok()?;
        let mut text = String::new();
        GzDecoder::new(packed.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        let registry = config["registry"].as_str()?;
        Some(text.replace("quay.io/kubevirt", registry))
    }))
}

#[test]
fn a_real_release_is_installed_upgraded_rolled_back_and_removed() {
    let Some(strategies) = strategies() else {
        return;
    };
    tell(async {
        let ground = Ground::begin_with(|setup| setup.strategies = strategies).await;
        ground.wait(60).await;
        let before = census(&ground.client).await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        ground.change(json!({ "imageTag": "v1.8.4" })).await;
        ground.until_deployed("v1.8.4").await;
        ground.delete("KubeVirt", NAME).await;
        ground.until_gone("KubeVirt", NAME).await;
        ground.wait(300).await;
        let after = census(&ground.client).await;
        let left: Vec<_> = after.difference(&before).collect();
        assert!(left.is_empty(), "{left:#?}");
    });
}
