//! The operator as a process: what it survives, and who leads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use http::Method;
use kubevirt_operator::machine::{Operator, Questions};
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
    ground::{tell, tell_alone, tell_in_sandbox},
    line::{Fault, Line},
    story::{Story, condition},
};

const HOUR: u64 = 3600;
const PAUSED_TIME: &str = "it takes an hour";
const MINUTES: &str = "it takes minutes";

/// All writes that were counted.
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
fn an_api_server_that_is_away_for_an_hour_is_not_beleaguered_and_not_missed() {
    tell_in_sandbox(PAUSED_TIME, async {
        let story = Story::begin().await;
        story.machine("old", json!({ "template": "small" })).await;
        story.until_phase("old", "Running").await;

        story.line.fail(|_, _| Some(Fault::Refused));
        story.line.cut();
        story.calls.take();
        story.machine("new", json!({ "template": "small" })).await;
        story.delete("Machine", "old").await;
        story.wait(HOUR).await;
        // Twelve watches, each at most every half a minute.
        let asked = all(&story.calls);
        assert!(asked < 3000, "{asked} requests in an hour without answers");

        story.line.mend();
        let back = Instant::now();
        story.until_phase("new", "Running").await;
        story.until_gone("Machine", "old").await;
        assert!(
            back.elapsed() < story.ground.patience_of(120),
            "{:?}",
            back.elapsed()
        );
    });
}

#[test]
fn an_api_server_that_has_too_many_requests_is_asked_again_later_and_nobody_is_alarmed() {
    tell(async {
        let story = Story::begin().await;
        let record = story.record(&["Machine"]).await;
        story.wait(1).await;
        story
            .line
            .fail(|method, _| (method != Method::GET).then_some(Fault::Status(429)));
        story.machine("web", json!({ "template": "small" })).await;
        story.wait(60).await;
        let asked = writes(&story.calls);
        assert!(asked < 30, "{asked} writes in a minute of refusals");
        story.line.mend();
        story.until_phase("web", "Running").await;
        let changes = record.of("Machine", "web");
        assert!(
            !changes
                .iter()
                .any(|change| change.object["status"]["phase"] == "Failed")
        );
        assert_eq!(story.reasons("web").await, ["Created", "Started"]);
    });
}

#[test]
fn an_api_server_that_wishes_to_be_left_alone_is() {
    tell_in_sandbox(MINUTES, async {
        let story = Story::begin().await;
        story.wait(1).await;
        story
            .line
            .fail(|method, _| (method != Method::GET).then_some(Fault::Busy(300)));
        story.calls.take();
        story.machine("web", json!({ "template": "small" })).await;
        story.wait(290).await;
        // The finalizer is refused, and so is the status.
        let asked = writes(&story.calls);
        assert!((1..=2).contains(&asked), "{asked} writes meanwhile");
        story.line.mend();
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn a_machine_does_not_wait_for_what_its_predecessor_was_refused() {
    tell_in_sandbox(MINUTES, async {
        let story = Story::begin().await;
        story.wait(1).await;
        story.line.fail(|method, path| {
            let is_disk = path.ends_with("/persistentvolumeclaims");
            (method == Method::POST && is_disk).then_some(Fault::Busy(300))
        });
        story.machine("web", json!({ "template": "small" })).await;
        story.wait(30).await;
        // That another takes its place is not seen by the operator before it is done.
        story.line.fail(|_, _| Some(Fault::Refused));
        story.line.cut();
        let bare = json!({ "metadata": { "finalizers": null } });
        story.patch("Machine", "web", bare).await;
        story.delete("Machine", "web").await;
        story.machine("web", json!({ "template": "small" })).await;
        story.line.mend();
        let begun = Instant::now();
        story.until_phase("web", "Running").await;
        assert!(
            begun.elapsed() < story.ground.patience_of(120),
            "{:?}",
            begun.elapsed()
        );
    });
}

#[test]
fn a_history_that_is_dropped_in_the_middle_of_everything_does_no_harm() {
    tell_in_sandbox("no client can have a real server drop its history", async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            story.server().compact();
            story.line.cut();
        }
        story.until_phase("web", "Running").await;
        story.delete("Machine", "web").await;
        story.server().compact();
        story.line.cut();
        story.until_gone("Machine", "web").await;
    });
}

#[test]
fn watches_that_end_all_the_time_do_no_harm() {
    tell(async {
        let story = Story::begin().await;
        story.machine("web", json!({ "template": "small" })).await;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            story.line.cut();
        }
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn a_write_whose_answer_is_lost_is_not_made_twice() {
    tell(async {
        let story = Story::without_operator().await;
        let mut story = story;
        // The answer to the create of the VirtualMachine, the third write.
        story.line.die_after(3);
        story.start_operator();
        story.machine("web", json!({ "template": "small" })).await;
        story.until_writes(3).await;
        let vm = story.until("VirtualMachine", "web", |_| true).await;
        story.line.mend();
        story.until_phase("web", "Running").await;
        let same = story.get("VirtualMachine", "web").await;
        assert_eq!(same["metadata"]["uid"], vm["metadata"]["uid"]);
        let reasons = story.reasons("web").await;
        assert!(
            !reasons.iter().any(|reason| reason == "ForeignObject"),
            "{reasons:?}"
        );
    });
}

#[test]
fn a_round_that_made_progress_is_tried_again_soon() {
    tell(async {
        let story = Story::begin().await;
        let asked = AtomicU32::new(0);
        story.line.fail(move |method, path| {
            let is_claim = method == Method::POST && path.ends_with("/persistentvolumeclaims");
            let is_refused = is_claim && asked.fetch_add(1, Ordering::Relaxed) % 2 == 1;
            is_refused.then_some(Fault::Status(500))
        });
        let disk = |number: u32| json!({ "name": format!("data-{number}"), "size": "1Gi" });
        let disks: Vec<_> = (0..7).map(disk).collect();
        let begun = Instant::now();
        story
            .machine("web", json!({ "template": "small", "disks": disks }))
            .await;
        story
            .until("VirtualMachine", "web", serde_json::Value::is_object)
            .await;
        // Seven refusals in a row, after each of which one more disk was created.
        let took = begun.elapsed();
        assert!(took < story.ground.patience_of(15), "{took:?}");
    });
}

#[test]
fn one_machine_that_always_fails_does_not_slow_a_thousand() {
    tell_in_sandbox("a thousand Machines are too many in real time", async {
        let mut story = Story::for_many().await;
        story
            .create("Namespace", json!({ "metadata": { "name": "poisoned" } }))
            .await;
        story.line.fail(|method, path| {
            let poisoned = method == Method::POST
                && path == "/apis/kubevirt.io/v1/namespaces/poisoned/virtualmachines";
            poisoned.then_some(Fault::Status(500))
        });
        story.namespace = "poisoned".to_owned();
        story.idle_machine("web").await;
        story.namespace = "default".to_owned();
        for number in 0..999 {
            story.idle_machine(&format!("web-{number}")).await;
        }
        // To look at a thousand again and again is what this story is not about.
        story.start_operator_with(|options| options.reconcile_interval = Duration::from_hours(2));
        let begun = Instant::now();
        story.until_all("Stopped").await;
        // There is no time in it but that of the actors, and of pauses that there must not be.
        assert!(
            begun.elapsed() < story.ground.patience_of(10),
            "{:?}",
            begun.elapsed()
        );

        story.namespace = "poisoned".to_owned();
        let machine = story.until_phase("web", "Failed").await;
        assert_eq!(condition(&machine, "Ready")["reason"], "KubeVirtApiError");
        story.wait(60).await;
        story.calls.take();
        story.wait(HOUR).await;
        let asked = story.writes("");
        assert!(asked <= 20, "{asked} writes in an hour for one that fails");
        story.line.mend();
        story.until_phase("web", "Stopped").await;
    });
}

#[test]
fn other_namespaces_than_those_to_watch_are_nobodys_business() {
    tell_alone(&[], async {
        let mut story = Story::set_up(|_| {}).await;
        for name in ["ours", "theirs"] {
            let namespace = json!({ "metadata": { "name": name } });
            story.create("Namespace", namespace).await;
        }
        story.start_operator_with(|options| {
            options.namespaces = vec!["ours".to_owned(), "default".to_owned()];
        });
        for namespace in ["theirs", "ours", "default"] {
            story.namespace = namespace.to_owned();
            story.machine("web", json!({ "template": "small" })).await;
        }
        story.until_phase("web", "Running").await;
        story.namespace = "ours".to_owned();
        story.until_phase("web", "Running").await;
        story.namespace = "theirs".to_owned();
        story.wait(60).await;
        let machine = story.get("Machine", "web").await;
        assert!(machine["status"].is_null() && machine["metadata"]["finalizers"].is_null());
    });
}

#[test]
fn the_end_comes_within_five_seconds_also_when_writes_are_not_answered() {
    tell(async {
        let mut story = Story::without_operator().await;
        story.line.die_after(2);
        story.start_operator();
        for number in 0..10 {
            let name = format!("web-{number}");
            story.machine(&name, json!({ "template": "small" })).await;
        }
        story.until_writes(2).await;
        let asked = Instant::now();
        story.stop_operator().await;
        assert!(
            asked.elapsed() < story.ground.patience_of(5),
            "{:?}",
            asked.elapsed()
        );
        story.line.mend();
        story.start_operator();
        for number in 0..10 {
            story.until_phase(&format!("web-{number}"), "Running").await;
        }
    });
}

/// An operator that takes part in an election.
struct Member {
    calls: Arc<CallCounter>,
    line: Line,
    token: CancellationToken,
    running: JoinHandle<()>,
    election: JoinHandle<Leadership>,
}

impl Member {
    fn join(story: &Story, identity: &str, seed: u64) -> Self {
        let (calls, line) = (Arc::new(CallCounter::default()), Line::new());
        let candidate = Candidate {
            namespace: SUITE.account.0.to_owned(),
            name: "kubevirt-operator".to_owned(),
            identity: identity.to_owned(),
        };
        let client = |fence, calls: Arc<CallCounter>| {
            let transport = line.over(story.ground.transport());
            layered(transport, fence, Limits::UNLIMITED, calls as _)
        };
        let clock = story.ground.clock();
        let own = client(Fence::open(), Arc::default());
        let election = Election::new(own, candidate, clock.clone(), Random::seeded(seed));
        let (leads, receiver) = watch::channel(false);
        let operator = Operator {
            client: client(election.fence(), calls.clone()),
            lookups: client(Fence::open(), Arc::default()),
            options: story.options(),
            clock,
            metrics: Metrics::new("test"),
            health: Health::new(),
            leads: receiver,
            stopwatch: Arc::new(Instant::now),
            questions: Questions::default(),
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
            line,
            token,
            running,
            election,
        }
    }
}

#[test]
fn of_two_operators_one_writes_and_the_other_takes_over_at_once_when_it_is_released() {
    tell_alone(&[], async {
        let story = Story::set_up(|_| {}).await;
        let first = Member::join(&story, "first", 1);
        story.wait(5).await;
        let second = Member::join(&story, "second", 2);
        story.machine("one", json!({ "template": "small" })).await;
        story.until_phase("one", "Running").await;
        story.wait(60).await;
        assert!(writes(&first.calls) > 0);
        assert_eq!(writes(&second.calls), 0);

        // As a rollout does: the old one ends in order, the new one goes on.
        first.token.cancel();
        first.running.await.unwrap();
        first.election.await.unwrap().release().await.unwrap();
        let released = Instant::now();
        story.machine("two", json!({ "template": "small" })).await;
        story.until_phase("two", "Creating").await;
        assert!(
            released.elapsed() < story.ground.patience_of(5),
            "{:?}",
            released.elapsed()
        );
        story.until_phase("two", "Running").await;
        assert!(writes(&second.calls) > 0);
    });
}

#[test]
fn an_operator_that_is_cut_off_is_replaced_and_writes_nothing_any_more() {
    tell_alone(&[], async {
        let story = Story::set_up(|_| {}).await;
        let first = Member::join(&story, "first", 1);
        story.machine("one", json!({ "template": "small" })).await;
        story.until_phase("one", "Running").await;
        let second = Member::join(&story, "second", 2);
        story.wait(5).await;

        first.line.fail(|_, _| Some(Fault::Refused));
        first.line.cut();
        let cut = Instant::now();
        story.machine("two", json!({ "template": "small" })).await;
        story.until_phase("two", "Running").await;
        assert!(
            cut.elapsed() < story.ground.patience_of(30),
            "{:?}",
            cut.elapsed()
        );
        let leadership = first.election.await.unwrap();
        leadership.lost().await;

        // It is back, and still believes nothing but its fence.
        first.line.mend();
        first.calls.take();
        story.machine("three", json!({ "template": "small" })).await;
        story.until_phase("three", "Running").await;
        story.wait(60).await;
        assert_eq!(writes(&first.calls), 0);
        assert!(writes(&second.calls) > 0);
        first.running.abort();
    });
}
