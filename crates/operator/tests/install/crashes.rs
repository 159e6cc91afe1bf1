//! The operator may die, be there twice, or lose its way to the API server at any moment.

use http::Method;
use serde_json::{Value, json};

use crate::{
    census::{census, picture},
    ground::{Ground, NAME, is_deployed, tell},
    line::Fault,
};

#[test]
fn an_operator_that_dies_after_every_single_write_installs_all_the_same() {
    tell(async {
        let straight = Ground::with("v1.9.0").await;
        straight.wait(120).await;

        let mut ground = Ground::begin().await;
        ground.install("v1.9.0").await;
        let crashes = crash_until_deployed(&mut ground, "v1.9.0").await;
        assert!(crashes > 80, "{crashes}");
        assert_eq!(picture(&ground).await, picture(&straight).await);
    });
}

#[test]
fn an_operator_that_dies_after_every_single_write_updates_all_the_same() {
    tell(async {
        let mut ground = Ground::with("v1.8.4").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(120).await;
        let straight = picture(&ground).await;
        ground.change(json!({ "imageTag": "v1.8.4" })).await;
        ground.until_deployed("v1.8.4").await;

        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        let crashes = crash_until_deployed(&mut ground, "v1.9.0").await;
        assert!(crashes > 60, "{crashes}");
        assert_eq!(picture(&ground).await, straight);
    });
}

#[test]
fn an_operator_that_dies_after_every_single_write_removes_all_the_same() {
    tell(async {
        let mut ground = Ground::begin().await;
        ground.wait(60).await;
        let before = census(&ground.client).await;
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.delete("KubeVirt", NAME).await;
        let mut crashes = 0;
        while ground
            .crash_after_next_write_unless(|found| found.is_none())
            .await
        {
            crashes += 1;
        }
        assert!(crashes > 80, "{crashes}");
        ground.wait(300).await;
        let after = census(&ground.client).await;
        let left: Vec<_> = after.symmetric_difference(&before).collect();
        assert!(left.is_empty(), "{left:#?}");
    });
}

/// Lets the operator crash after every write until a version is deployed, and tells how often it
/// did.
pub(crate) async fn crash_until_deployed(ground: &mut Ground, version: &str) -> u32 {
    let is_deployed =
        |found: Option<&Value>| found.is_some_and(|found| is_deployed(found, version));
    let mut crashes = 0;
    while ground.crash_after_next_write_unless(is_deployed).await {
        crashes += 1;
    }
    ground.wait(120).await;
    crashes
}

#[test]
fn two_operators_that_both_believe_to_lead_do_no_harm() {
    tell(async {
        let mut ground = Ground::begin().await;
        ground.start_operator();
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(300).await;
        ground.asked();
        ground.wait(3600).await;
        assert_eq!(ground.written(), [].into());
        ground.remove().await;
    });
}

#[test]
fn an_api_server_that_is_away_holds_an_update_up_and_nothing_else() {
    tell(async {
        let ground = Ground::with("v1.8.4").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        for outage in [Fault::Refused, Fault::Status(503), Fault::Busy(5)] {
            ground.wait(2).await;
            ground.line.fail(move |_, _| Some(outage));
            ground.line.cut();
            ground.wait(120).await;
            ground.line.mend();
        }
        ground.until_deployed("v1.9.0").await;
        ground.wait(300).await;
        ground.asked();
        ground.wait(600).await;
        assert_eq!(ground.asked(), [].into());
    });
}

#[test]
fn writes_that_are_refused_are_told_and_tried_again() {
    tell(async {
        let ground = Ground::begin().await;
        ground.line.fail(|method, path| {
            (*method == Method::PATCH && path.contains("/services/")).then_some(Fault::Status(403))
        });
        ground.install("v1.9.0").await;
        let degraded = ground.until_condition("Degraded", "True").await;
        assert_eq!(degraded["reason"], "DeploymentFailed");
        let message = degraded["message"].as_str().unwrap();
        for words in ["Service kubevirt/", "is refused: told to fail"] {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
        ground.asked();
        ground.wait(3600).await;
        // Ever more seldom.
        let tried = ground.written()["patch services"];
        assert!((10..200).contains(&tried), "{tried}");
        ground.line.mend();
        ground.until_deployed("v1.9.0").await;
    });
}
