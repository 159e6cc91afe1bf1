//! The operator dies after every single write of an upgrade.

use std::{path::Path, sync::Arc};

use kubevirt_operator::kubevirt::Given;
use plan::kubevirt::Strategy;
use serde_json::json;

use super::{
    data, text_of,
    world::{differences, world},
};
use crate::{
    crashes::crash_until_deployed,
    ground::{Ground, REGISTRY, tell},
};

/// The strategies, read once rather than at every start.
fn given(data: &Path) -> Vec<Given> {
    let versions = ["v1.8.4", "v1.9.0"].into_iter();
    versions
        .map(|version| Given {
            version: version.to_owned(),
            strategy: Arc::new(Strategy::parse(&text_of(data, version).unwrap()).unwrap()),
        })
        .collect()
}

/// A cluster where v1.8.4 is installed and v1.9.0 is asked for, without the instance types, of which
/// one is written as the other.
async fn begin(given: &[Given]) -> Ground {
    let mut ground = Ground::without_operator(|_| {}).await;
    ground.options.strategies = given.to_vec();
    ground.start_operator();
    let without = json!({ "commonInstancetypesDeployment": { "enabled": false } });
    ground
        .install_with(json!({
            "imageTag": "v1.8.4", "imageRegistry": REGISTRY, "configuration": without,
        }))
        .await;
    ground.until_deployed("v1.8.4").await;
    ground.asked();
    ground.change(json!({ "imageTag": "v1.9.0" })).await;
    ground
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn an_upgrade_that_dies_after_every_write_ends_as_one_that_does_not() {
    let data = data();
    tell(async {
        let given = given(&data);
        let ground = begin(&given).await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(300).await;
        let undisturbed = world(&ground.client).await;
        drop(ground);

        let mut ground = begin(&given).await;
        let crashes = crash_until_deployed(&mut ground, "v1.9.0").await;
        assert!(crashes > 100, "{crashes}");
        ground.until_deployed("v1.9.0").await;
        ground.wait(300).await;
        let disturbed = world(&ground.client).await;
        let differences = differences(&undisturbed, &disturbed);
        assert!(differences.is_empty(), "{differences:#?}");
    });
}
