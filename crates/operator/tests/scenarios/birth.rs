//! How Machines come to be.

use serde_json::json;

use crate::story::{Story, condition};

#[tokio::test(start_paused = true)]
async fn a_machine_of_one_line_becomes_a_running_virtual_machine() {
    let story = Story::begin().await;
    story.machine("web", json!({ "template": "small" })).await;
    let machine = story.until_phase("web", "Running").await;

    assert_eq!(condition(&machine, "Ready")["status"], "True");
    assert_eq!(
        condition(&machine, "VirtualMachineReady")["reason"],
        "VMCreated"
    );
    assert_eq!(condition(&machine, "StorageReady")["reason"], "PVCBound");
    assert_eq!(
        condition(&machine, "NetworkReady")["reason"],
        "NetworkConfigured"
    );
    assert_eq!(machine["status"]["vmName"], "web");
    assert!(machine["status"]["ipAddresses"][0].is_string());
    assert!(machine["status"]["nodeName"].is_string());
    let claim = story.get("PersistentVolumeClaim", "web-root").await;
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "20Gi");
}
