//! Releases whose strategies are given as files (`virt-operator --strategy`): no Job, no image is needed.

use std::{path::Path, sync::Arc};

use kubevirt_operator::kubevirt::Given;
use plan::kubevirt::Strategy;
use serde_json::{Value, json};

use super::{change_to, data, life::remove, text_of};
use crate::{
    census::census,
    ground::{Ground, NAME, REGISTRY, tell},
};

/// A cluster whose operator has the strategies of two releases.
async fn begin(data: &Path) -> Ground {
    let mut ground = Ground::without_operator(|_| {}).await;
    let given = ["v1.8.4", "v1.9.0"].into_iter().map(|version| {
        let text = text_of(data, version).unwrap();
        let text = text.replace("quay.io/kubevirt", REGISTRY);
        Given {
            version: version.to_owned(),
            strategy: Arc::new(Strategy::parse(&text).unwrap()),
        }
    });
    ground.options.strategies = given.collect();
    ground.start_operator();
    ground
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn a_release_given_as_a_file_is_deployed_downgraded_and_removed() {
    let data = data();
    tell(async {
        let ground = begin(&data).await;
        ground.wait(60).await;
        let before = census(&ground.client).await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        assert_eq!(ground.list("Job").await, Vec::<Value>::new());
        change_to(&ground, "v1.8.4").await;
        remove(&ground, &before).await;
    });
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn workloads_block_the_removal_of_a_release_while_there_are_any() {
    let data = data();
    tell(async {
        let ground = begin(&data).await;
        ground.wait(60).await;
        let before = census(&ground.client).await;
        ground
            .install_with(json!({
                "imageTag": "v1.9.0", "imageRegistry": REGISTRY,
                "uninstallStrategy": "BlockUninstallIfWorkloadsExist",
            }))
            .await;
        ground.until_deployed("v1.9.0").await;
        let domain = json!({ "devices": {}, "memory": { "guest": "1Gi" } });
        let vm = json!({
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "runStrategy": "Halted", "template": { "spec": { "domain": domain } } },
        });
        ground.create("VirtualMachine", vm).await;
        let refused = ground.try_delete("KubeVirt", NAME).await.unwrap_err();
        assert!(refused.contains("default/web"), "{refused}");
        let machines = ground.api_in("VirtualMachine", "default");
        machines
            .delete("web", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        while machines.get_opt("web").await.unwrap().is_some() {
            ground.wait(1).await;
        }
        remove(&ground, &before).await;
    });
}
