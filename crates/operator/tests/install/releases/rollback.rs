//! Automatic rollback of a release that fails.

use api::kubevirt::install::{GIVEN_UP, ROLLBACK_POLICY};
use rstest::rstest;
use sandbox::faults::Faults;
use serde_json::json;

use super::{Source, guest::Guest};
use crate::scenario::{InstallScenario, NAME, run_scenario};

#[rstest]
#[case::fixtures(Source::Fixtures)]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
#[case::real_data(Source::RealData)]
fn a_release_that_fails_on_the_canary_is_rolled_back(#[case] source: Source) {
    run_scenario(async {
        let faults = "[{kind: DaemonSet, name: virt-handler, \
            fault: 'CrashLoopBackOff=virt-handler:v1.9.0'}]";
        let scenario = InstallScenario::start_with(|setup| {
            source.set_up(setup);
            setup.faults = Faults::from_yaml(faults).unwrap();
        })
        .await;
        scenario.install("v1.8.4").await;
        scenario.until_deployed("v1.8.4").await;
        let guest = Guest::start(&scenario).await;
        let policy = json!({ "metadata": { "annotations": { ROLLBACK_POLICY: "OnFailure" } } });
        scenario.patch("KubeVirt", NAME, policy).await;
        scenario.patch_spec(json!({ "imageTag": "v1.9.0" })).await;
        scenario
            .until("KubeVirt", NAME, |kubevirt| {
                kubevirt["metadata"]["annotations"][GIVEN_UP].is_string()
            })
            .await;
        scenario.until_deployed("v1.8.4").await;
        guest.still_runs(&scenario).await;
        let handler = scenario.get("DaemonSet", "virt-handler").await;
        let image = &handler["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(image, "registry.example/kubevirt/virt-handler:v1.8.4");
        scenario.wait(60).await;
        scenario.take_requests();
        scenario.wait(3600).await;
        assert_eq!(scenario.take_requests(), [].into());
    });
}
