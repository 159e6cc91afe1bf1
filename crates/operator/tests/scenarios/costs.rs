//! What the operator asks of the API server, counted.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;

use crate::{
    ground::{tell, tell_alone},
    story::Story,
};

/// Requests by verb and resource, but for watches and the first lists.
type Asked = BTreeMap<String, u64>;

fn asked(story: &Story) -> Asked {
    let calls = story.calls.take();
    let counted = calls
        .into_iter()
        .filter(|((verb, _, _), _)| *verb != "watch");
    let mut asked = Asked::new();
    for ((verb, resource, _), count) in counted {
        *asked.entry(format!("{verb} {resource}")).or_default() += count;
    }
    asked
}

fn expected<const N: usize>(counts: [(&str, u64); N]) -> Asked {
    counts.map(|(what, count)| (what.to_owned(), count)).into()
}

/// An operator that has caught up with the cluster.
async fn settled() -> Story {
    let story = Story::begin().await;
    story.wait(2).await;
    story.calls.take();
    story
}

#[test]
fn a_machine_with_one_disk_costs_six_writes_and_two_events() {
    tell(async {
        let story = settled().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        story.wait(3).await;
        let counts = expected([
            ("patch machines", 1),
            ("create persistentvolumeclaims", 1),
            ("create virtualmachines", 1),
            ("patch machines/status", 3),
            ("create events", 2),
        ]);
        assert_eq!(asked(&story), counts);
    });
}

#[test]
fn cloud_init_costs_one_write_more() {
    tell(async {
        let story = settled().await;
        let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
        story.machine("web", spec).await;
        story.until_phase("web", "Running").await;
        story.wait(3).await;
        let counts = expected([
            ("patch machines", 1),
            ("create persistentvolumeclaims", 1),
            ("create secrets", 1),
            ("create virtualmachines", 1),
            ("patch machines/status", 3),
            ("create events", 2),
        ]);
        assert_eq!(asked(&story), counts);
    });
}

#[test]
fn a_fleet_that_is_as_it_should_be_costs_nothing() {
    tell_alone(&[], async {
        let mut story = Story::for_many().await;
        story.start_operator_with(|options| options.reconcile_interval = Duration::from_mins(10));
        for number in 0..200 {
            story.idle_machine(&format!("web-{number}")).await;
        }
        story.until_all("Stopped").await;
        assert_costs_nothing(&story).await;
    });
}

#[test]
fn machines_that_run_cost_nothing() {
    tell_alone(&[], async {
        let story = Story::begin().await;
        for number in 0..3 {
            let spec = json!({ "template": "small", "cloudInit": { "userData": "#!/bin/sh" } });
            story.machine(&format!("web-{number}"), spec).await;
        }
        story.until_all("Running").await;
        assert_costs_nothing(&story).await;
    });
}

/// Nothing is asked for an hour, in which everything is looked at again and again.
async fn assert_costs_nothing(story: &Story) {
    story.wait(60).await;
    story.calls.take();
    story.wait(3600).await;
    assert_eq!(asked(story), Asked::new());
}

#[test]
fn a_restart_of_the_operator_costs_its_first_lists_and_nothing_else() {
    tell(async {
        let mut story = settled().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        story.wait(3).await;
        story.stop_operator().await;
        story.calls.take();
        story.start_operator();
        story.wait(5).await;
        let asked = asked(&story);
        assert_eq!(asked.len(), 12, "{asked:?}");
        for (what, count) in asked {
            assert!(what.starts_with("list ") && count == 1, "{what}: {count}");
        }
    });
}

#[test]
fn a_deletion_costs_one_request_for_each_object_and_two_to_tell() {
    tell(async {
        let story = settled().await;
        story.machine("web", json!({ "template": "small" })).await;
        story.until_phase("web", "Running").await;
        story.wait(3).await;
        story.calls.take();
        story.delete("Machine", "web").await;
        story.until_gone("Machine", "web").await;
        story.wait(3).await;
        let counts = expected([
            ("delete virtualmachines", 1),
            // What is waited for: the VirtualMachine and its instance, then one of them.
            ("patch machines/status", 2),
            // That nobody uses the disk is not known without a live read.
            ("list virtualmachines", 1),
            ("list virtualmachineinstances", 1),
            ("delete persistentvolumeclaims", 1),
            // Whether there is a Secret to delete is not known without a look.
            ("get secrets", 1),
            ("patch machines", 1),
            ("create events", 1),
        ]);
        assert_eq!(asked(&story), counts);
    });
}
