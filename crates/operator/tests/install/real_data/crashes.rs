//! The operator dies after every single write of an upgrade.

use serde_json::json;

use super::{
    change_to, data, released,
    world::{differences, world},
};
use crate::{
    crashes::crash_until_deployed,
    ground::{Ground, tell},
};

#[test]
fn an_upgrade_that_dies_after_every_write_ends_as_one_that_does_not() {
    let Some(data) = data() else { return };
    tell(async {
        let ground = Ground::begin_with(released(&data)).await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        change_to(&ground, "v1.9.0").await;
        ground.wait(300).await;
        let undisturbed = world(&ground.client).await;

        let mut ground = Ground::begin_with(released(&data)).await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        let crashes = crash_until_deployed(&mut ground, "v1.9.0").await;
        assert!(crashes > 100, "{crashes}");
        ground.until_deployed("v1.9.0").await;
        ground.wait(300).await;
        let disturbed = world(&ground.client).await;
        let differences = differences(&undisturbed, &disturbed);
        assert!(differences.is_empty(), "{differences:#?}");
    });
}
