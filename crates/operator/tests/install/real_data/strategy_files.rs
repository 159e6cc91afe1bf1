//! Releases whose strategies are given as files (`virt-operator --strategy`), without a Job and its
//! image.

use std::{path::Path, sync::Arc};

use kubevirt_operator::kubevirt::StrategyFile;
use plan::kubevirt::Strategy;
use serde_json::{Value, json};

use super::{data_folder, lifecycle::remove, strategy_of, upgrade_to};
use crate::{
    inventory::inventory,
    scenario::{InstallScenario, NAME, REGISTRY, run_scenario},
};

/// Starts the operator with the strategies of two releases.
async fn start(data: &Path) -> InstallScenario {
    let mut scenario = InstallScenario::without_operator(|_| {}).await;
    let given = ["v1.8.4", "v1.9.0"].into_iter().map(|version| {
        let text = strategy_of(data, version).unwrap();
        let text = text.replace("quay.io/kubevirt", REGISTRY);
        StrategyFile {
            version: version.to_owned(),
            strategy: Arc::new(Strategy::parse(&text).unwrap()),
        }
    });
    scenario.options.strategies = given.collect();
    scenario.start_operator();
    scenario
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn a_release_given_as_a_file_is_deployed_downgraded_and_removed() {
    let data = data_folder();
    run_scenario(async {
        let scenario = start(&data).await;
        scenario.wait(60).await;
        let before = inventory(&scenario.client).await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        assert_eq!(scenario.list("Job").await, Vec::<Value>::new());
        upgrade_to(&scenario, "v1.8.4").await;
        remove(&scenario, &before).await;
    });
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn workloads_block_the_removal_of_a_release_while_there_are_any() {
    let data = data_folder();
    run_scenario(async {
        let scenario = start(&data).await;
        scenario.wait(60).await;
        let before = inventory(&scenario.client).await;
        scenario
            .install_with(json!({
                "imageTag": "v1.9.0", "imageRegistry": REGISTRY,
                "uninstallStrategy": "BlockUninstallIfWorkloadsExist",
            }))
            .await;
        scenario.until_deployed("v1.9.0").await;
        let domain = json!({ "devices": {}, "memory": { "guest": "1Gi" } });
        let vm = json!({
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "runStrategy": "Halted", "template": { "spec": { "domain": domain } } },
        });
        scenario.create("VirtualMachine", vm).await;
        let refused = scenario.try_delete("KubeVirt", NAME).await.unwrap_err();
        assert!(refused.contains("default/web"), "{refused}");
        let machines = scenario.api_in("VirtualMachine", "default");
        machines
            .delete("web", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        while machines.get_opt("web").await.unwrap().is_some() {
            scenario.wait(1).await;
        }
        remove(&scenario, &before).await;
    });
}
