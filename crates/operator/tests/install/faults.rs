//! What the operator meets with, and what it says of it.

use http::Method;

use crate::{
    ground::{Ground, condition, tell},
    line::Fault,
};

#[test]
fn a_write_that_is_refused_is_told_and_tried_again() {
    tell(async {
        let ground = Ground::begin().await;
        ground.line.fail(|method, path| {
            let is_it = *method == Method::PATCH && path.ends_with("/deployments/virt-api");
            is_it.then_some(Fault::Status(403))
        });
        ground.install("v1.9.0").await;
        let degraded = ground.until_condition("Degraded", "True").await;
        let message = degraded["message"].as_str().unwrap();
        assert!(
            message.contains("Deployment kubevirt/virt-api"),
            "{message}"
        );
        assert!(message.contains("told to fail"), "{message}");
        ground.line.mend();
        ground.until_deployed("v1.9.0").await;
        let kubevirt = ground.kubevirt().await;
        assert_eq!(condition(&kubevirt, "Degraded")["status"], "False");
    });
}

#[test]
fn an_api_server_that_is_away_for_a_while_stops_nothing_for_good() {
    tell(async {
        let ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        ground.line.until_writes(20).await;
        ground.line.fail(|_, _| Some(Fault::Refused));
        ground.line.cut();
        ground.wait(120).await;
        ground.line.mend();
        ground.until_deployed("v1.9.0").await;
        let events = ground.events().await;
        assert!(!events.is_empty());
    });
}
