//! The operator may die at any moment.

use serde_json::json;

use crate::ground::{Ground, tell};

#[test]
fn an_operator_that_dies_after_every_write_gets_there_all_the_same() {
    tell(async {
        let mut ground = Ground::begin().await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        ground.change(json!({ "imageTag": "v1.9.0" })).await;
        let mut crashes = 0;
        while ground
            .crash_after_next_write_unless_deployed("v1.9.0")
            .await
        {
            crashes += 1;
        }
        ground.until_deployed("v1.9.0").await;
        assert!(crashes > 20, "{crashes}");
    });
}
