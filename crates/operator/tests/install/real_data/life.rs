//! From one release to the next, back, and to the removal.

use std::collections::{BTreeMap, BTreeSet};

use super::{change_to, data, guest::Guest, released};
use crate::{
    census::census,
    costs::managed,
    ground::{Ground, NAME, tell},
};

/// Removes KubeVirt. Nothing is left that was not there before.
pub(super) async fn remove(ground: &Ground, before: &BTreeSet<String>) {
    ground.delete("KubeVirt", NAME).await;
    ground.until_gone("KubeVirt", NAME).await;
    // Pods take their time to end.
    ground.wait(300).await;
    let after = census(&ground.client).await;
    let left: Vec<_> = after.difference(before).collect();
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn a_release_is_installed_upgraded_rolled_back_and_removed() {
    let data = data();
    tell(async {
        let ground = Ground::begin_with(released(&data)).await;
        ground.wait(60).await;
        let before = census(&ground.client).await;
        ground.install("v1.8.4").await;
        ground.until_deployed("v1.8.4").await;
        let guest = Guest::start(&ground).await;
        change_to(&ground, "v1.9.0").await;
        guest.still_runs(&ground).await;
        change_to(&ground, "v1.8.4").await;
        guest.still_runs(&ground).await;
        drop(guest);
        remove(&ground, &before).await;
    });
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn every_object_of_a_release_is_written_once_and_then_nothing_is_asked() {
    let data = data();
    tell(async {
        let ground = Ground::begin_with(released(&data)).await;
        ground.wait(60).await;
        ground.asked();
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        let mut written = ground.written();
        let objects = managed(&ground).await;
        // The finalizer, and one for each step that is told of.
        assert_eq!(written.remove("patch kubevirts"), Some(1));
        let told = written.remove("patch kubevirts/status").unwrap();
        assert!(told <= 9, "{told} writes to the status");
        assert_eq!(written.remove("patch namespaces"), Some(1));
        for once in ["create jobs", "delete jobs"] {
            assert_eq!(written.remove(once), Some(1));
        }
        // What held back new kinds until the new API was up is gone again.
        let held_back = "validatingwebhookconfigurations";
        assert_eq!(written.remove(&format!("delete {held_back}")), Some(1));
        *written.get_mut(&format!("patch {held_back}")).unwrap() -= 1;
        let once: BTreeMap<String, u64> = objects
            .into_iter()
            .map(|(resource, objects)| (format!("patch {resource}"), objects))
            .collect();
        assert_eq!(written, once);
        assert_eq!(written.values().sum::<u64>(), 243);

        ground.wait(3600).await;
        assert_eq!(ground.asked(), [].into());
    });
}
