//! Installation, upgrade, rollback and removal of real releases.

use std::collections::{BTreeMap, BTreeSet};

use super::{data_folder, guest::Guest, upgrade_to, with_released_strategies};
use crate::{
    costs::managed,
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

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn a_release_is_installed_upgraded_rolled_back_and_removed() {
    let data = data_folder();
    run_scenario(async {
        let scenario = InstallScenario::start_with(with_released_strategies(&data)).await;
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

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn every_object_of_a_release_costs_one_write_and_then_no_requests() {
    let data = data_folder();
    run_scenario(async {
        let scenario = InstallScenario::start_with(with_released_strategies(&data)).await;
        scenario.wait(60).await;
        scenario.take_requests();
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(60).await;
        let mut written = scenario.take_writes();
        let objects = managed(&scenario).await;
        // The finalizer, and one status write per reported step.
        assert_eq!(written.remove("patch kubevirts"), Some(1));
        let status_writes = written.remove("patch kubevirts/status").unwrap();
        assert!(status_writes <= 9, "{status_writes} writes to the status");
        assert_eq!(written.remove("patch namespaces"), Some(1));
        for once in ["create jobs", "delete jobs"] {
            assert_eq!(written.remove(once), Some(1));
        }
        // The temporary webhook that refuses new kinds until the new API is up is deleted.
        let temporary_webhook = "validatingwebhookconfigurations";
        assert_eq!(
            written.remove(&format!("delete {temporary_webhook}")),
            Some(1)
        );
        *written
            .get_mut(&format!("patch {temporary_webhook}"))
            .unwrap() -= 1;
        let once: BTreeMap<String, u64> = objects
            .into_iter()
            .map(|(resource, objects)| (format!("patch {resource}"), objects))
            .collect();
        assert_eq!(written, once);
        assert_eq!(written.values().sum::<u64>(), 243);

        scenario.wait(3600).await;
        assert_eq!(scenario.take_requests(), [].into());
    });
}
