//! From one release to the next, back, and to the removal.

use std::collections::BTreeMap;

use super::{change_to, data, guest::Guest, released};
use crate::{
    census::census,
    costs::managed,
    ground::{Ground, NAME, tell},
};

/// Installs a release, upgrades it, goes back by asking for the old one, and removes it.
pub(super) async fn live(ground: &Ground, old: &str, new: &str) {
    ground.wait(60).await;
    let before = census(&ground.client).await;
    ground.install(old).await;
    ground.until_deployed(old).await;
    let guest = Guest::start(ground).await;
    change_to(ground, new).await;
    guest.still_runs(ground).await;
    change_to(ground, old).await;
    guest.still_runs(ground).await;
    drop(guest);
    ground.delete("KubeVirt", NAME).await;
    ground.until_gone("KubeVirt", NAME).await;
    // Pods take their time to end.
    ground.wait(300).await;
    let after = census(&ground.client).await;
    let left: Vec<_> = after.difference(&before).collect();
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn a_release_is_installed_upgraded_rolled_back_and_removed() {
    let Some(data) = data() else { return };
    tell(async {
        let ground = Ground::begin_with(released(&data)).await;
        live(&ground, "v1.8.4", "v1.9.0").await;
    });
}

#[test]
fn a_release_may_be_left_out() {
    let Some(data) = data() else { return };
    tell(async {
        let ground = Ground::begin_with(released(&data)).await;
        ground.install("v1.7.4").await;
        ground.until_deployed("v1.7.4").await;
        change_to(&ground, "v1.9.0").await;
    });
}

#[test]
fn every_object_of_a_release_is_written_once() {
    let Some(data) = data() else { return };
    tell(async {
        let ground = Ground::begin_with(released(&data)).await;
        ground.wait(60).await;
        ground.calls.take();
        ground.install("v1.9.0").await;
        ground.until_deployed("v1.9.0").await;
        ground.wait(60).await;
        let written = ground.written();
        let objects = managed(&ground).await;
        eprintln!("{written:#?}\n{objects:#?}");
        let _: BTreeMap<String, u64> = written;
        ground.wait(3600).await;
        assert_eq!(ground.asked(), [].into());
    });
}
