//! A release that fails is given up where that is wished.

use api::kubevirt::install::{GIVEN_UP, ROLLBACK_POLICY};
use sandbox::faults::Faults;
use serde_json::json;

use super::{data, guest::Guest, released};
use crate::ground::{Ground, NAME, tell};

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn a_release_that_fails_on_the_first_node_goes_back_to_the_last_one() {
    let data = data();
    tell(async {
        let faults = "[{kind: DaemonSet, name: virt-handler, \
            fault: 'CrashLoopBackOff=virt-handler:v1.9.0'}]";
        let ground = Ground::begin_with(|setup| {
            released(&data)(setup);
            setup.faults = Faults::from_yaml(faults).unwrap();
        })
        .await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        let guest = Guest::start(&ground).await;
        let policy = json!({ "metadata": { "annotations": { ROLLBACK_POLICY: "OnFailure" } } });
        ground.patch("KubeVirt", NAME, policy).await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground
            .until("KubeVirt", NAME, |kubevirt| {
                kubevirt["metadata"]["annotations"][GIVEN_UP].is_string()
            })
            .await;
        ground.until_deployed("v1.8.4").await;
        guest.still_runs(&ground).await;
        let handler = ground.get("DaemonSet", "virt-handler").await;
        let image = &handler["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(image, "registry.example/kubevirt/virt-handler:v1.8.4");
        ground.wait(60).await;
        ground.asked();
        ground.wait(3600).await;
        assert_eq!(ground.asked(), [].into());
    });
}
