//! Faults that the operator survives, and leader election.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use http::Method;
use kubevirt_operator::machine::{CacheQueries, Operator, RemoteAccess};
use kubevirt_operator::metrics::Metrics;
use runtime::{
    backoff::Random,
    client::{CallCounter, Limits, layered},
    election::{Candidate, Election, Fence, Leadership},
    probes::Health,
};
use serde_json::json;
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    SUITE,
    fault_injection::{Fault, FaultInjector},
    runner::{run_scenario, run_scenario_alone, run_scenario_in_sandbox},
    scenario::{Scenario, condition},
};

const HOUR: u64 = 3600;
const TAKES_AN_HOUR: &str = "it takes an hour";
const TAKES_MINUTES: &str = "it takes minutes";

fn writes(calls: &CallCounter) -> u64 {
    let is_write = |verb: &str| !matches!(verb, "get" | "list" | "watch");
    let calls = calls.snapshot();
    let writes = calls.iter().filter(|((verb, _, _), _)| is_write(verb));
    writes.map(|(_, count)| count).sum()
}

fn all(calls: &CallCounter) -> u64 {
    calls.snapshot().values().sum()
}

#[test]
fn an_api_server_outage_of_an_hour_causes_few_requests_and_no_harm() {
    run_scenario_in_sandbox(TAKES_AN_HOUR, async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("old", json!({ "template": "small" }))
            .await;
        scenario.until_phase("old", "Running").await;

        scenario.faults.inject(|_, _| Some(Fault::Refused));
        scenario.faults.drop_connections();
        scenario.calls.take();
        scenario
            .create_machine("new", json!({ "template": "small" }))
            .await;
        scenario.delete("Machine", "old").await;
        scenario.wait(HOUR).await;
        // Twelve watches, each retried at most every half a minute.
        let sent = all(&scenario.calls);
        assert!(sent < 3000, "{sent} requests in an hour without answers");

        scenario.faults.clear();
        let back = Instant::now();
        scenario.until_phase("new", "Running").await;
        scenario.until_gone("Machine", "old").await;
        assert!(
            back.elapsed() < scenario.cluster.timeout_of(120),
            "{:?}",
            back.elapsed()
        );
    });
}

#[test]
fn too_many_requests_responses_are_retried_without_events() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let recording = scenario.record(&["Machine"]).await;
        scenario.wait(1).await;
        scenario
            .faults
            .inject(|method, _| (method != Method::GET).then_some(Fault::Status(429)));
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.wait(60).await;
        let sent = writes(&scenario.calls);
        assert!(sent < 30, "{sent} writes in a minute of refusals");
        scenario.faults.clear();
        scenario.until_phase("web", "Running").await;
        let changes = recording.of("Machine", "web");
        assert!(
            !changes
                .iter()
                .any(|change| change.object["status"]["phase"] == "Failed")
        );
        assert_eq!(scenario.reasons("web").await, ["Created", "Started"]);
    });
}

#[test]
fn retry_after_of_the_api_server_is_honoured() {
    run_scenario_in_sandbox(TAKES_MINUTES, async {
        let scenario = Scenario::start().await;
        scenario.wait(1).await;
        scenario
            .faults
            .inject(|method, _| (method != Method::GET).then_some(Fault::TooManyRequests(300)));
        scenario.calls.take();
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.wait(290).await;
        // The writes of the finalizer and of the status are refused.
        let sent = writes(&scenario.calls);
        assert!((1..=2).contains(&sent), "{sent} writes meanwhile");
        scenario.faults.clear();
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn a_recreated_machine_does_not_inherit_the_backoff_of_its_predecessor() {
    run_scenario_in_sandbox(TAKES_MINUTES, async {
        let scenario = Scenario::start().await;
        scenario.wait(1).await;
        scenario.faults.inject(|method, path| {
            let is_disk = path.ends_with("/persistentvolumeclaims");
            (method == Method::POST && is_disk).then_some(Fault::TooManyRequests(300))
        });
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.wait(30).await;
        // The operator does not observe that another Machine replaces it until it is done.
        scenario.faults.inject(|_, _| Some(Fault::Refused));
        scenario.faults.drop_connections();
        let bare = json!({ "metadata": { "finalizers": null } });
        scenario.patch("Machine", "web", bare).await;
        scenario.delete("Machine", "web").await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.faults.clear();
        let begun = Instant::now();
        scenario.until_phase("web", "Running").await;
        assert!(
            begun.elapsed() < scenario.cluster.timeout_of(120),
            "{:?}",
            begun.elapsed()
        );
    });
}

#[test]
fn an_expired_watch_history_does_no_harm() {
    run_scenario_in_sandbox("no client can have a real server drop its history", async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            scenario.server().compact();
            scenario.faults.drop_connections();
        }
        scenario.until_phase("web", "Running").await;
        scenario.delete("Machine", "web").await;
        scenario.server().compact();
        scenario.faults.drop_connections();
        scenario.until_gone("Machine", "web").await;
    });
}

#[test]
fn constantly_ending_watches_do_no_harm() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            scenario.faults.drop_connections();
        }
        scenario.until_phase("web", "Running").await;
    });
}

#[test]
fn a_write_whose_response_is_lost_is_not_repeated() {
    run_scenario(async {
        let scenario = Scenario::without_operator().await;
        let mut scenario = scenario;
        // The third write, the create of the VirtualMachine.
        scenario.faults.hang_after_writes(3);
        scenario.start_operator();
        scenario
            .create_machine("web", json!({ "template": "small" }))
            .await;
        scenario.until_writes(3).await;
        let vm = scenario.until("VirtualMachine", "web", |_| true).await;
        scenario.faults.clear();
        scenario.until_phase("web", "Running").await;
        let same = scenario.get("VirtualMachine", "web").await;
        assert_eq!(same["metadata"]["uid"], vm["metadata"]["uid"]);
        let reasons = scenario.reasons("web").await;
        assert!(
            !reasons.iter().any(|reason| reason == "ForeignObject"),
            "{reasons:?}"
        );
    });
}

#[test]
fn a_reconcile_that_made_progress_is_retried_soon() {
    run_scenario(async {
        let scenario = Scenario::start().await;
        let attempts = AtomicU32::new(0);
        scenario.faults.inject(move |method, path| {
            let is_claim = method == Method::POST && path.ends_with("/persistentvolumeclaims");
            let is_refused = is_claim && attempts.fetch_add(1, Ordering::Relaxed) % 2 == 1;
            is_refused.then_some(Fault::Status(500))
        });
        let disk = |number: u32| json!({ "name": format!("data-{number}"), "size": "1Gi" });
        let disks: Vec<_> = (0..7).map(disk).collect();
        let begun = Instant::now();
        scenario
            .create_machine("web", json!({ "template": "small", "disks": disks }))
            .await;
        scenario
            .until("VirtualMachine", "web", serde_json::Value::is_object)
            .await;
        // Seven refusals in a row, each after the creation of one more disk.
        let took = begun.elapsed();
        assert!(took < scenario.cluster.timeout_of(15), "{took:?}");
    });
}

#[test]
fn one_machine_that_always_fails_does_not_slow_a_thousand() {
    run_scenario_in_sandbox("a thousand Machines are too many in real time", async {
        let mut scenario = Scenario::for_many_machines().await;
        scenario
            .create("Namespace", json!({ "metadata": { "name": "poisoned" } }))
            .await;
        scenario.faults.inject(|method, path| {
            let poisoned = method == Method::POST
                && path == "/apis/kubevirt.io/v1/namespaces/poisoned/virtualmachines";
            poisoned.then_some(Fault::Status(500))
        });
        scenario.namespace = "poisoned".to_owned();
        scenario.create_idle_machine("web").await;
        scenario.namespace = "default".to_owned();
        for number in 0..999 {
            scenario.create_idle_machine(&format!("web-{number}")).await;
        }
        // Resyncs of a thousand Machines are not the subject of this scenario.
        scenario
            .start_operator_with(|options| options.reconcile_interval = Duration::from_hours(2));
        let begun = Instant::now();
        scenario.until_all("Stopped").await;
        // The time is that of the actors only, without any pause of the operator.
        assert!(
            begun.elapsed() < scenario.cluster.timeout_of(10),
            "{:?}",
            begun.elapsed()
        );

        scenario.namespace = "poisoned".to_owned();
        let machine = scenario.until_phase("web", "Failed").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "KubeVirtApiError");
        scenario.wait(60).await;
        scenario.calls.take();
        scenario.wait(HOUR).await;
        let sent = scenario.writes("");
        assert!(sent <= 20, "{sent} writes in an hour for one that fails");
        scenario.faults.clear();
        scenario.until_phase("web", "Stopped").await;
    });
}

#[test]
fn unwatched_namespaces_are_left_alone() {
    run_scenario_alone(&[], async {
        let mut scenario = Scenario::without_operator_on(|_| {}).await;
        for name in ["watched", "unwatched"] {
            let namespace = json!({ "metadata": { "name": name } });
            scenario.create("Namespace", namespace).await;
        }
        scenario.start_operator_with(|options| {
            options.namespaces = vec!["watched".to_owned(), "default".to_owned()];
        });
        for namespace in ["unwatched", "watched", "default"] {
            scenario.namespace = namespace.to_owned();
            scenario
                .create_machine("web", json!({ "template": "small" }))
                .await;
        }
        scenario.until_phase("web", "Running").await;
        scenario.namespace = "watched".to_owned();
        scenario.until_phase("web", "Running").await;
        scenario.namespace = "unwatched".to_owned();
        scenario.wait(60).await;
        let machine = scenario.get("Machine", "web").await;
        assert!(machine["status"].is_null() && machine["metadata"]["finalizers"].is_null());
    });
}

#[test]
fn shutdown_takes_less_than_five_seconds_even_with_unanswered_writes() {
    run_scenario(async {
        let mut scenario = Scenario::without_operator().await;
        scenario.faults.hang_after_writes(2);
        scenario.start_operator();
        for number in 0..10 {
            let name = format!("web-{number}");
            scenario
                .create_machine(&name, json!({ "template": "small" }))
                .await;
        }
        scenario.until_writes(2).await;
        let stopped_at = Instant::now();
        scenario.stop_operator().await;
        assert!(
            stopped_at.elapsed() < scenario.cluster.timeout_of(5),
            "{:?}",
            stopped_at.elapsed()
        );
        scenario.faults.clear();
        scenario.start_operator();
        for number in 0..10 {
            scenario
                .until_phase(&format!("web-{number}"), "Running")
                .await;
        }
    });
}

/// Operator with leader election.
struct Member {
    calls: Arc<CallCounter>,
    faults: FaultInjector,
    token: CancellationToken,
    running: JoinHandle<()>,
    election: JoinHandle<Leadership>,
}

impl Member {
    fn join(scenario: &Scenario, identity: &str, seed: u64) -> Self {
        let (calls, faults) = (Arc::new(CallCounter::default()), FaultInjector::new());
        let candidate = Candidate {
            namespace: SUITE.account.0.to_owned(),
            name: "kubevirt-operator".to_owned(),
            identity: identity.to_owned(),
        };
        let client = |fence, calls: Arc<CallCounter>| {
            let transport = faults.wrap(scenario.cluster.transport());
            layered(transport, fence, Limits::UNLIMITED, calls as _)
        };
        let clock = scenario.cluster.clock();
        let own = client(Fence::open(), Arc::default());
        let election = Election::new(own, candidate, clock.clone(), Random::seeded(seed));
        let (leads, receiver) = watch::channel(false);
        let operator = Operator {
            client: client(election.fence(), calls.clone()),
            lookups: client(Fence::open(), Arc::default()),
            remote: RemoteAccess::new(election.fence(), Limits::UNLIMITED),
            options: scenario.options(),
            clock,
            metrics: Metrics::new("test"),
            health: Health::new(),
            leads: receiver,
            stopwatch: Arc::new(Instant::now),
            queries: CacheQueries::default(),
        };
        let token = CancellationToken::new();
        let running = tokio::spawn(operator.run(token.clone()));
        let election = tokio::spawn(async move {
            let leadership = election.acquire().await;
            leads.send_replace(true);
            leadership
        });
        Self {
            calls,
            faults,
            token,
            running,
            election,
        }
    }
}

#[test]
fn the_standby_takes_over_immediately_when_the_lease_is_released() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::without_operator_on(|_| {}).await;
        let first = Member::join(&scenario, "first", 1);
        scenario.wait(5).await;
        let second = Member::join(&scenario, "second", 2);
        scenario
            .create_machine("one", json!({ "template": "small" }))
            .await;
        scenario.until_phase("one", "Running").await;
        scenario.wait(60).await;
        assert!(writes(&first.calls) > 0);
        assert_eq!(writes(&second.calls), 0);

        // As in a rollout: the old one ends gracefully, the new one continues.
        first.token.cancel();
        first.running.await.unwrap();
        first.election.await.unwrap().release().await.unwrap();
        let released = Instant::now();
        scenario
            .create_machine("two", json!({ "template": "small" }))
            .await;
        scenario.until_phase("two", "Creating").await;
        assert!(
            released.elapsed() < scenario.cluster.timeout_of(5),
            "{:?}",
            released.elapsed()
        );
        scenario.until_phase("two", "Running").await;
        assert!(writes(&second.calls) > 0);
    });
}

#[test]
fn a_leader_without_connection_is_replaced_and_writes_nothing_more() {
    run_scenario_alone(&[], async {
        let scenario = Scenario::without_operator_on(|_| {}).await;
        let first = Member::join(&scenario, "first", 1);
        scenario
            .create_machine("one", json!({ "template": "small" }))
            .await;
        scenario.until_phase("one", "Running").await;
        let second = Member::join(&scenario, "second", 2);
        scenario.wait(5).await;

        first.faults.inject(|_, _| Some(Fault::Refused));
        first.faults.drop_connections();
        let cut = Instant::now();
        scenario
            .create_machine("two", json!({ "template": "small" }))
            .await;
        scenario.until_phase("two", "Running").await;
        assert!(
            cut.elapsed() < scenario.cluster.timeout_of(30),
            "{:?}",
            cut.elapsed()
        );
        let leadership = first.election.await.unwrap();
        leadership.lost().await;

        // The connection is back, but its fence refuses all writes.
        first.faults.clear();
        first.calls.take();
        scenario
            .create_machine("three", json!({ "template": "small" }))
            .await;
        scenario.until_phase("three", "Running").await;
        scenario.wait(60).await;
        assert_eq!(writes(&first.calls), 0);
        assert!(writes(&second.calls) > 0);
        first.running.abort();
    });
}
