//! Crashes of the operator, two leaders at once, and API server outages at any moment.

use http::Method;
use serde_json::{Value, json};

use crate::{
    fault_injection::Fault,
    inventory::{inventory, snapshot},
    scenario::{InstallScenario, NAME, is_deployed, run_scenario},
};

#[test]
fn an_operator_that_crashes_after_every_write_completes_the_installation() {
    run_scenario(async {
        let straight = InstallScenario::with_version("v1.9.0").await;
        straight.wait(120).await;

        let mut scenario = InstallScenario::start().await;
        scenario.install("v1.9.0").await;
        let crashes = crash_until_deployed(&mut scenario, "v1.9.0").await;
        assert!(crashes > 80, "{crashes}");
        assert_eq!(snapshot(&scenario).await, snapshot(&straight).await);
    });
}

#[test]
fn an_operator_that_crashes_after_every_write_completes_the_removal() {
    run_scenario(async {
        let mut scenario = InstallScenario::start().await;
        scenario.wait(60).await;
        let before = inventory(&scenario.client).await;
        scenario.install("v1.9.0").await;
        scenario.until_deployed("v1.9.0").await;
        scenario.delete("KubeVirt", NAME).await;
        let mut crashes = 0;
        while scenario
            .crash_after_next_write_unless(|found| found.is_none())
            .await
        {
            crashes += 1;
        }
        assert!(crashes > 80, "{crashes}");
        scenario.wait(300).await;
        let after = inventory(&scenario.client).await;
        let left: Vec<_> = after.symmetric_difference(&before).collect();
        assert!(left.is_empty(), "{left:#?}");
    });
}

/// Crashes the operator after every write until a version is deployed, and returns the number of
/// crashes.
pub(crate) async fn crash_until_deployed(scenario: &mut InstallScenario, version: &str) -> u32 {
    let is_deployed =
        |found: Option<&Value>| found.is_some_and(|found| is_deployed(found, version));
    let mut crashes = 0;
    while scenario.crash_after_next_write_unless(is_deployed).await {
        crashes += 1;
    }
    scenario.wait(120).await;
    crashes
}

#[test]
fn two_leaders_at_once_do_no_harm() {
    run_scenario(async {
        let mut scenario = InstallScenario::start().await;
        scenario.start_operator();
        scenario.install("v1.8.4").await;
        scenario.until_deployed("v1.8.4").await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(300).await;
        scenario.take_requests();
        scenario.wait(3600).await;
        assert_eq!(scenario.take_writes(), [].into());
        scenario.remove().await;
    });
}

#[test]
fn an_unreachable_api_server_delays_an_upgrade_and_nothing_else() {
    run_scenario(async {
        let scenario = InstallScenario::with_version("v1.8.4").await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        for outage in [
            Fault::Refused,
            Fault::Status(503),
            Fault::TooManyRequests(5),
        ] {
            scenario.wait(2).await;
            scenario.faults.inject(move |_, _| Some(outage));
            scenario.faults.drop_connections();
            scenario.wait(120).await;
            scenario.faults.clear();
        }
        scenario.until_deployed("v1.9.0").await;
        scenario.wait(300).await;
        scenario.take_requests();
        scenario.wait(600).await;
        assert_eq!(scenario.take_requests(), [].into());
    });
}

#[test]
fn refused_writes_are_reported_and_retried() {
    run_scenario(async {
        let scenario = InstallScenario::start().await;
        scenario.faults.inject(|method, path| {
            (*method == Method::PATCH && path.contains("/services/")).then_some(Fault::Status(403))
        });
        scenario.install("v1.9.0").await;
        let degraded = scenario.until_condition("Degraded", "True").await;
        assert_eq!(degraded["reason"], "DeploymentFailed");
        let message = degraded["message"].as_str().unwrap();
        for words in ["Service kubevirt/", "is refused: injected fault"] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        scenario.take_requests();
        scenario.wait(3600).await;
        // With growing delays.
        let tried = scenario.take_writes()["patch services"];
        assert!((10..200).contains(&tried), "{tried}");
        scenario.faults.clear();
        scenario.until_deployed("v1.9.0").await;
    });
}
