//! What is let in of changes to the KubeVirt resource.

use kube::{
    Error,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::ground::{Ground, NAME, NAMESPACE, tell};

/// Why a change of the spec is refused.
async fn refusal(ground: &Ground, spec: Value) -> Option<String> {
    let patch = Patch::Merge(json!({ "spec": spec }));
    let api = ground.api("KubeVirt");
    match api.patch(NAME, &PatchParams::default(), &patch).await {
        Ok(_) => None,
        Err(Error::Api(status)) => Some(status.message.clone()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_second_kubevirt_is_refused() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let second = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": { "name": "second", "namespace": NAMESPACE }, "spec": {},
        });
        let second = serde_json::from_value(second).unwrap();
        let api = ground.api("KubeVirt");
        let refused = api.create(&PostParams::default(), &second).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("KubeVirt is already created"), "{refused}");
    });
}

#[test]
fn changes_that_cannot_work_are_refused_with_the_reason() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let refused = refusal(&ground, json!({ "infra": { "replicas": 0 } })).await;
        assert!(refused.unwrap().contains("replicas"));
        let toleration = json!({ "operator": "Exists", "value": "a" });
        let placement = json!({ "nodePlacement": { "tolerations": [toleration] } });
        let refused = refusal(&ground, json!({ "infra": placement })).await;
        assert!(refused.unwrap().contains("spec.infra.nodePlacement"));
        let allowed = refusal(&ground, json!({ "infra": { "replicas": 3 } })).await;
        assert_eq!(allowed, None);
    });
}

#[test]
fn a_removal_that_would_lose_virtual_machines_is_refused_where_that_is_wished() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        let strategy = json!({ "uninstallStrategy": "BlockUninstallIfWorkloadsExist" });
        assert_eq!(refusal(&ground, strategy).await, None);
        let spec = json!({
            "runStrategy": "Halted",
            "template": { "spec": { "domain": { "devices": {} } } },
        });
        let vm = json!({ "metadata": { "name": "web", "namespace": "default" }, "spec": spec });
        ground.create("VirtualMachine", vm).await;
        let api = ground.api("KubeVirt");
        let refused = api.delete(NAME, &DeleteParams::default()).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("VirtualMachine default/web"), "{refused}");
    });
}
