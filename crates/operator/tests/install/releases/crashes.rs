//! Upgrade during which the operator crashes after every write.

use kubevirt_operator::kubevirt::StrategyFile;
use rstest::rstest;
use serde_json::json;

use super::{
    Source,
    comparison::{all_objects, differences},
};
use crate::{
    crashes::crash_until_deployed,
    scenario::{InstallScenario, REGISTRY, run_scenario},
};

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

#[rstest]
#[case::fixtures(Source::Fixtures, 60)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData, 100)]
fn an_upgrade_with_a_crash_after_every_write_has_the_same_result(
    #[case] source: Source,
    #[case] min_crashes: u32,
) {
    run_scenario(async {
        let given = match source {
            Source::Fixtures => Vec::new(),
            // Parsed once instead of at every start.
            Source::RealData => ["v1.8.4", "v1.9.0"]
                .map(|version| source.strategy_file(version))
                .into(),
        };
        let scenario = start_upgrade(&given).await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(300).await;
        let undisturbed = all_objects(&scenario.client).await;
        drop(scenario);

        let mut scenario = start_upgrade(&given).await;
        let crashes = crash_until_deployed(&mut scenario, "v1.9.0").await;
        assert!(crashes > min_crashes, "{crashes}");
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(300).await;
        let disturbed = all_objects(&scenario.client).await;
        let differences = differences(&undisturbed, &disturbed);
        assert!(differences.is_empty(), "{differences:#?}");
    });
}
