//! Installation, upgrade, downgrade and removal of releases.

use std::collections::BTreeSet;

use rstest::rstest;

use super::{Source, guest::Guest, upgrade_to};
use crate::{
    inventory::inventory,
    scenario::{InstallScenario, NAME, run_scenario},
};

/// Removes KubeVirt and asserts that only the objects of `before` are left.
pub(super) async fn remove(scenario: &InstallScenario, before: &BTreeSet<String>) {
    scenario.delete("KubeVirt", NAME).await;
    scenario.until_gone("KubeVirt", NAME).await;
    // Pods take a while to terminate.
    scenario.wait(300).await;
    let after = inventory(&scenario.client).await;
    let left: Vec<_> = after.difference(before).collect();
    assert!(left.is_empty(), "{left:#?}");
}

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn a_release_is_installed_upgraded_rolled_back_and_removed(#[case] source: Source) {
    run_scenario(async {
        let scenario = InstallScenario::start_with(|setup| source.set_up(setup)).await;
        scenario.wait(60).await;
        let before = inventory(&scenario.client).await;
        scenario.install("v1.8.4").await;
        scenario.until_deployed("v1.8.4").await;
        let guest = Guest::start(&scenario).await;
        upgrade_to(&scenario, "v1.9.0").await;
        guest.still_runs(&scenario).await;
        upgrade_to(&scenario, "v1.8.4").await;
        guest.still_runs(&scenario).await;
        drop(guest);
        remove(&scenario, &before).await;
    });
}
