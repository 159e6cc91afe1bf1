//! Signals and leader election.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use crate::{
    cluster::{ProcessCluster, RecordedRequest, until},
    program::Program,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_the_leader_within_five_seconds_and_the_standby_takes_over_immediately() {
    let cluster = ProcessCluster::start().await;
    let (first_endpoint, second_endpoint) = (
        cluster.endpoint("first").await,
        cluster.endpoint("second").await,
    );
    let first = Program::start(&first_endpoint, &[]);
    cluster
        .create_machine("one", json!({ "template": "small" }))
        .await;
    cluster.until_running("one").await;
    assert_ne!(cluster.holder().await.unwrap(), "");

    let signalled = Instant::now();
    first.signal("TERM");
    let (status, lines) = first.wait_for_exit().await;
    assert!(signalled.elapsed() < Duration::from_secs(5));
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    assert_eq!(cluster.holder().await.unwrap(), "");

    let _second = Program::start(&second_endpoint, &[]);
    cluster
        .create_machine("two", json!({ "template": "small" }))
        .await;
    cluster.until_running("two").await;
    let requests = second_endpoint.requests();
    let leases = requests.iter().filter(|request| request.is_lease_request());
    let leases: Vec<_> = leases
        .map(|request| request.method.clone())
        .take(2)
        .collect();
    // It found the Lease released, and did not wait.
    assert_eq!(leases, [Method::GET, Method::PUT]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_a_standby_replica() {
    let cluster = ProcessCluster::start().await;
    let (first_endpoint, second_endpoint) = (
        cluster.endpoint("first").await,
        cluster.endpoint("second").await,
    );
    let _first = Program::start(&first_endpoint, &[]);
    until("a leader", async || cluster.holder().await.is_some()).await;
    let leader = cluster.holder().await;

    let second = Program::start(&second_endpoint, &[]);
    until("a second candidate", async || {
        second_endpoint
            .requests()
            .iter()
            .any(RecordedRequest::is_lease_request)
    })
    .await;
    // A standby replica is ready: otherwise a Deployment of two would never be.
    until("the second to be ready", async || {
        second.probe("/readyz").await.code == 200
    })
    .await;
    second.signal("TERM");
    let (status, lines) = second.wait_for_exit().await;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    assert_eq!(cluster.holder().await, leader);
    assert!(second_endpoint.writes().is_empty());
}

/// As when a node is suspended or a hypervisor migrates it, in the middle of the operator's work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits for a Lease to run out: half a minute"]
async fn a_leader_resumed_after_its_lease_expired_writes_nothing() {
    let cluster = ProcessCluster::start().await;
    let (first_endpoint, second_endpoint) = (
        cluster.endpoint("first").await,
        cluster.endpoint("second").await,
    );
    // Many writes are queued whenever it is stopped, and all are due when it continues.
    let slow = [
        ("CLIENT_QPS", "20"),
        ("CLIENT_BURST", "20"),
        ("MAX_CONCURRENT_RECONCILES", "50"),
    ];
    let first = Program::start(&first_endpoint, &slow);
    until("the first to lead", async || {
        cluster
            .holder()
            .await
            .is_some_and(|holder| !holder.is_empty())
    })
    .await;
    let _second = Program::start(&second_endpoint, &[]);

    let mut number = 0;
    let mut create = async || {
        number += 1;
        let spec = json!({ "template": "small", "powerState": "Stopped" });
        cluster
            .create_machine(&format!("stream-{number}"), spec)
            .await;
    };
    for _ in 0..100 {
        create().await;
    }
    until("the first to write", async || {
        first_endpoint.writes().len() > 20
    })
    .await;
    first.signal("STOP");
    let stopped = Instant::now();
    until("the second to write", async || {
        create().await;
        second_endpoint.writes().len() > 20
    })
    .await;
    let taken_over = second_endpoint.writes()[0].at;
    assert!(taken_over > stopped);

    first.signal("CONT");
    let (status, lines) = first.wait_for_exit().await;
    assert_eq!(status.code(), Some(1));
    let last = lines.last().unwrap();
    assert!(last.contains("no longer leading"), "{last}");
    let before = second_endpoint.writes().len();
    until("the second to go on", async || {
        create().await;
        second_endpoint.writes().len() > before + 20
    })
    .await;
    let late: Vec<_> = first_endpoint
        .writes()
        .into_iter()
        .filter(|request| request.at >= taken_over)
        .collect();
    assert!(late.is_empty(), "{late:#?}");
}
