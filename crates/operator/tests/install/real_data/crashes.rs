//! Upgrade during which the operator crashes after every write.

use std::{path::Path, sync::Arc};

use kubevirt_operator::kubevirt::StrategyFile;
use plan::kubevirt::Strategy;
use serde_json::json;

use super::{
    comparison::{all_objects, differences},
    data_folder, strategy_of,
};
use crate::{
    crashes::crash_until_deployed,
    scenario::{InstallScenario, REGISTRY, run_scenario},
};

/// Strategies, parsed once instead of at every start.
fn given(data: &Path) -> Vec<StrategyFile> {
    let versions = ["v1.8.4", "v1.9.0"].into_iter();
    versions
        .map(|version| StrategyFile {
            version: version.to_owned(),
            strategy: Arc::new(Strategy::parse(&strategy_of(data, version).unwrap()).unwrap()),
        })
        .collect()
}

/// Starts an upgrade from v1.8.4 to v1.9.0, without the instance types, whose many writes are all alike.
async fn start_upgrade(given: &[StrategyFile]) -> InstallScenario {
    let mut scenario = InstallScenario::without_operator(|_| {}).await;
    scenario.options.strategies = given.to_vec();
    scenario.start_operator();
    let without = json!({ "commonInstancetypesDeployment": { "enabled": false } });
    scenario
        .install_with(json!({
            "imageTag": "v1.8.4", "imageRegistry": REGISTRY, "configuration": without,
        }))
        .await;
    scenario.until_deployed("v1.8.4").await;
    scenario.take_requests();
    scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
    scenario
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn an_upgrade_with_a_crash_after_every_write_has_the_same_result() {
    let data = data_folder();
    run_scenario(async {
        let given = given(&data);
        let scenario = start_upgrade(&given).await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(300).await;
        let undisturbed = all_objects(&scenario.client).await;
        drop(scenario);

        let mut scenario = start_upgrade(&given).await;
        let crashes = crash_until_deployed(&mut scenario, "v1.9.0").await;
        assert!(crashes > 100, "{crashes}");
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(300).await;
        let disturbed = all_objects(&scenario.client).await;
        let differences = differences(&undisturbed, &disturbed);
        assert!(differences.is_empty(), "{differences:#?}");
    });
}
