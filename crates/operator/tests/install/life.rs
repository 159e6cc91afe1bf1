//! From the KubeVirt resource to its removal.

use serde_json::json;

use crate::{
    census::census,
    ground::{Ground, NAME, tell},
};

#[test]
fn kubevirt_is_installed_when_it_is_asked_for() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        for name in ["virt-api", "virt-controller"] {
            ground.get("Deployment", name).await;
        }
        ground.get("DaemonSet", "virt-handler").await;
    });
}

#[test]
fn a_new_version_is_rolled_out_when_it_is_asked_for() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
    });
}

#[test]
fn nothing_is_left_when_kubevirt_is_removed() {
    tell(async {
        let ground = Ground::begin().await;
        ground.wait(60).await;
        let before = census(&ground.client).await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.delete("KubeVirt", NAME).await;
        ground.until_gone("KubeVirt", NAME).await;
        // Pods take their time to end.
        ground.wait(300).await;
        let after = census(&ground.client).await;
        let left: Vec<_> = after.difference(&before).collect();
        assert!(left.is_empty(), "{left:#?}");
    });
}
