//! What somebody changes is put back, and what is not ours stays.

use serde_json::json;

use crate::ground::{Ground, tell};

#[test]
fn what_somebody_changes_is_put_back() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.delete("Service", "virt-api").await;
        ground
            .patch(
                "Deployment",
                "virt-api",
                json!({ "spec": { "replicas": 7 } }),
            )
            .await;
        ground
            .patch("ClusterRole", "kubevirt-controller", json!({ "rules": [] }))
            .await;
        ground.delete("Secret", "kubevirt-virt-api-certs").await;
        ground.wait(60).await;
        ground.get("Service", "virt-api").await;
        ground.get("Secret", "kubevirt-virt-api-certs").await;
        let api = ground.get("Deployment", "virt-api").await;
        assert_eq!(api["spec"]["replicas"], 2);
        let role = ground.get("ClusterRole", "kubevirt-controller").await;
        assert_ne!(role["rules"], json!([]));
    });
}

#[test]
fn labels_and_annotations_of_others_stay() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        let theirs = json!({ "metadata": {
            "labels": { "example.com/team": "vm" }, "annotations": { "example.com/note": "ours" },
        } });
        ground.patch("Deployment", "virt-api", theirs).await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        let api = ground.get("Deployment", "virt-api").await;
        assert_eq!(api["metadata"]["labels"]["example.com/team"], "vm");
        assert_eq!(api["metadata"]["annotations"]["example.com/note"], "ours");
    });
}

#[test]
fn a_label_that_makes_it_ours_comes_back() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let unlabelled =
            json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } });
        ground.patch("Service", "virt-api", unlabelled).await;
        ground.wait(60).await;
        let service = ground.get("Service", "virt-api").await;
        let manager = &service["metadata"]["labels"]["app.kubernetes.io/managed-by"];
        assert_eq!(manager, "virt-operator");
    });
}
