//! Releases whose strategies are given as files (`virt-operator --strategy`), without a Job and its
//! image.

use rstest::rstest;
use serde_json::{Value, json};

use super::{Source, lifecycle::remove, upgrade_to};
use crate::{
    inventory::inventory,
    scenario::{InstallScenario, NAME, REGISTRY, run_scenario},
};

/// Starts the operator with the strategies of two releases.
async fn start(source: Source) -> InstallScenario {
    let mut scenario = InstallScenario::without_operator(|_| {}).await;
    let given = ["v1.8.4", "v1.9.0"].map(|version| source.strategy_file(version));
    scenario.options.strategies = given.to_vec();
    scenario.start_operator();
    scenario
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn a_release_given_as_a_file_is_deployed_downgraded_and_removed(#[case] source: Source) {
    run_scenario(async {
        let scenario = start(source).await;
        scenario.wait(60).await;
        let before = inventory(&scenario.client).await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        assert_eq!(scenario.list("Job").await, Vec::<Value>::new());
        upgrade_to(&scenario, "v1.8.4").await;
        remove(&scenario, &before).await;
    });
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn workloads_block_the_removal_of_a_release_while_there_are_any(#[case] source: Source) {
    run_scenario(async {
        let scenario = start(source).await;
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
