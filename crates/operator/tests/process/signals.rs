//! Signals and the Lease: who may write, and when.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use crate::{
    ground::{Ground, Seen, until},
    program::Program,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_it_in_five_seconds_and_the_next_one_leads_at_once() {
    let ground = Ground::start().await;
    let (first_door, second_door) = (ground.door("first").await, ground.door("second").await);
    let first = Program::start(&first_door, &[]);
    ground.machine("one", json!({ "template": "small" })).await;
    ground.until_running("one").await;
    assert_ne!(ground.holder().await.unwrap(), "");

    let signalled = Instant::now();
    first.signal("TERM");
    let (status, lines) = first.ended().await;
    assert!(signalled.elapsed() < Duration::from_secs(5));
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    assert_eq!(ground.holder().await.unwrap(), "");

    let _second = Program::start(&second_door, &[]);
    ground.machine("two", json!({ "template": "small" })).await;
    ground.until_running("two").await;
    let requests = second_door.seen();
    let leases = requests.iter().filter(|seen| seen.is_of_lease());
    let leases: Vec<_> = leases.map(|seen| seen.method.clone()).take(2).collect();
    // It saw once that nobody leads, and did not wait.
    assert_eq!(leases, [Method::GET, Method::PUT]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_one_that_stands_by() {
    let ground = Ground::start().await;
    let (first_door, second_door) = (ground.door("first").await, ground.door("second").await);
    let _first = Program::start(&first_door, &[]);
    until("a leader", async || ground.holder().await.is_some()).await;
    let leader = ground.holder().await;

    let second = Program::start(&second_door, &[]);
    until("a second candidate", async || {
        second_door.seen().iter().any(Seen::is_of_lease)
    })
    .await;
    // One that stands by is ready: a Deployment of two would never be otherwise.
    until("the second to be ready", async || {
        second.probe("/readyz").await.code == 200
    })
    .await;
    second.signal("TERM");
    let (status, lines) = second.ended().await;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    assert_eq!(ground.holder().await, leader);
    assert!(second_door.writes().is_empty());
}

/// As when a node is suspended, or a hypervisor migrates it, with the operator in the midst of its
/// work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits for a Lease to run out: half a minute"]
async fn a_leader_that_was_stopped_for_long_writes_nothing_once_another_leads() {
    let ground = Ground::start().await;
    let (first_door, second_door) = (ground.door("first").await, ground.door("second").await);
    // Many writes wait for their turn whenever it is stopped, and all have it when it goes on.
    let slow = [
        ("CLIENT_QPS", "20"),
        ("CLIENT_BURST", "20"),
        ("MAX_CONCURRENT_RECONCILES", "50"),
    ];
    let first = Program::start(&first_door, &slow);
    until("the first to lead", async || {
        ground
            .holder()
            .await
            .is_some_and(|holder| !holder.is_empty())
    })
    .await;
    let _second = Program::start(&second_door, &[]);

    let mut number = 0;
    let mut create = async || {
        number += 1;
        let spec = json!({ "template": "small", "powerState": "Stopped" });
        ground.machine(&format!("stream-{number}"), spec).await;
    };
    for _ in 0..100 {
        create().await;
    }
    until("the first to write", async || {
        first_door.writes().len() > 20
    })
    .await;
    first.signal("STOP");
    let stopped = Instant::now();
    until("the second to write", async || {
        create().await;
        second_door.writes().len() > 20
    })
    .await;
    let taken_over = second_door.writes()[0].at;
    assert!(taken_over > stopped);

    first.signal("CONT");
    let (status, lines) = first.ended().await;
    assert_eq!(status.code(), Some(1));
    let last = lines.last().unwrap();
    assert!(last.contains("no longer leading"), "{last}");
    let before = second_door.writes().len();
    until("the second to go on", async || {
        create().await;
        second_door.writes().len() > before + 20
    })
    .await;
    let late: Vec<_> = first_door
        .writes()
        .into_iter()
        .filter(|seen| seen.at >= taken_over)
        .collect();
    assert!(late.is_empty(), "{late:#?}");
}
