use std::collections::BTreeMap;

use apiserver::{ApiServer, Options};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};
use rstest::rstest;
use tokio::{task::JoinHandle, time::advance};

use super::*;

const COMPONENT: &str = "kubevirt-operator";

/// A cluster, and a publisher that sends to it.
struct Stage {
    server: ApiServer,
    recorder: Recorder,
    token: CancellationToken,
    publisher: JoinHandle<()>,
}

impl Stage {
    fn start() -> Self {
        let server = ApiServer::start(Options::seeded(1));
        let clock = server.clone();
        let (recorder, publisher) = channel(COMPONENT, move || clock.now());
        let token = CancellationToken::new();
        let publisher = tokio::spawn(publisher.run(server.client(), token.clone()));
        Self {
            server,
            recorder,
            token,
            publisher,
        }
    }

    fn say(&self, object: &str, reason: &str, message: &str) {
        self.recorder.record(event(object, reason, message));
    }

    /// All Events by reason, once everything is sent.
    async fn seen(&self) -> BTreeMap<String, CoreEvent> {
        // Whatever waits for its turn has it before time goes on.
        sleep(Duration::from_millis(1)).await;
        let events: Api<CoreEvent> = Api::all(self.server.client());
        let events = events.list(&ListParams::default()).await.unwrap();
        events
            .into_iter()
            .map(|event| (event.reason.clone().unwrap(), event))
            .collect()
    }

    async fn count(&self, reason: &str) -> i32 {
        self.seen()
            .await
            .get(reason)
            .and_then(|event| event.count)
            .unwrap_or(0)
    }
}

fn object(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("vitistack.io/v1alpha1".to_owned()),
        kind: Some("Machine".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(format!("uid-of-{name}")),
        ..ObjectReference::default()
    }
}

fn event(object_name: &str, reason: &str, message: &str) -> Event {
    Event {
        object: object(object_name),
        event_type: EventType::Normal,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_says_what_happened_to_whom_and_when() {
    let stage = Stage::start();
    stage.recorder.record(Event {
        event_type: EventType::Warning,
        ..event(
            "web-1",
            "StorageClassNotFound",
            "There is no StorageClass\n\"fast\"",
        )
    });
    let recorded = stage.server.now();
    let seen = stage.seen().await;
    let event = &seen["StorageClassNotFound"];
    assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
    assert!(
        event
            .metadata
            .name
            .as_deref()
            .unwrap()
            .starts_with("web-1.")
    );
    assert_eq!(event.involved_object, object("web-1"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(
        event.message.as_deref(),
        Some("There is no StorageClass \"fast\"")
    );
    let source = event.source.as_ref().unwrap();
    assert_eq!(source.component.as_deref(), Some(COMPONENT));
    assert_eq!(event.reporting_component.as_deref(), Some(COMPONENT));
    assert_eq!(event.count, Some(1));
    let second = |time: &Option<Time>| time.as_ref().map(|time| time.0.as_second());
    assert_eq!(second(&event.first_timestamp), Some(recorded.as_second()));
    assert_eq!(second(&event.last_timestamp), Some(recorded.as_second()));
}

#[tokio::test(start_paused = true)]
async fn what_is_said_again_is_counted_and_sent_once_a_minute() {
    let stage = Stage::start();
    for _ in 0..50 {
        stage.say("web-1", "Waiting", "Waiting for the volume");
    }
    assert_eq!(stage.count("Waiting").await, 1);
    advance(Duration::from_secs(59)).await;
    stage.say("web-1", "Waiting", "Waiting for the volume");
    assert_eq!(stage.count("Waiting").await, 1);
    advance(Duration::from_secs(1)).await;
    stage.say("web-1", "Waiting", "Waiting for the volume");
    let seen = stage.seen().await;
    assert_eq!(seen.len(), 1);
    let event = &seen["Waiting"];
    assert_eq!(event.count, Some(52));
    assert!(event.last_timestamp > event.first_timestamp);
}

#[tokio::test(start_paused = true)]
async fn what_is_said_again_much_later_is_a_new_event() {
    let stage = Stage::start();
    stage.say("web-1", "Restarted", "Restarted");
    stage.seen().await;
    advance(REPEAT_WINDOW + Duration::from_secs(1)).await;
    stage.say("web-1", "Restarted", "Restarted");
    sleep(Duration::from_millis(1)).await;
    let events: Api<CoreEvent> = Api::default_namespaced(stage.server.client());
    let found = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(
        found.iter().map(|event| event.count).collect::<Vec<_>>(),
        [Some(1), Some(1)]
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_expired_is_created_again_with_its_count() {
    let stage = Stage::start();
    stage.say("web-1", "Waiting", "Waiting");
    let seen = stage.seen().await;
    let events: Api<CoreEvent> = Api::default_namespaced(stage.server.client());
    let name = seen["Waiting"].metadata.name.clone().unwrap();
    events
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    advance(COUNT_INTERVAL).await;
    stage.say("web-1", "Waiting", "Waiting");
    assert_eq!(stage.count("Waiting").await, 2);
}

#[tokio::test(start_paused = true)]
async fn one_object_does_not_flood_the_cluster() {
    let stage = Stage::start();
    for n in 0..100 {
        stage.say("noisy", &format!("Reason{n}"), "x");
    }
    stage.say("quiet", "Heard", "x");
    let seen = stage.seen().await;
    assert_eq!(seen.len(), usize::try_from(BURST).unwrap() + 1);
    assert!(seen.contains_key("Heard"));

    advance(REFILL_INTERVAL).await;
    stage.say("noisy", "Later", "x");
    stage.say("noisy", "TooMuch", "x");
    let seen = stage.seen().await;
    assert!(seen.contains_key("Later"));
    assert!(!seen.contains_key("TooMuch"));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_gone_stops_nobody() {
    let stage = Stage::start();
    let mut lost = event("web-1", "Lost", "x");
    lost.object.namespace = Some("gone".to_owned());
    stage.recorder.record(lost.clone());
    stage.say("web-1", "Heard", "x");
    assert_eq!(
        stage.seen().await.into_keys().collect::<Vec<_>>(),
        ["Heard"]
    );

    let namespaces: Api<Namespace> = Api::all(stage.server.client());
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "gone"}})).unwrap();
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    stage.recorder.record(lost);
    assert_eq!(
        stage.count("Lost").await,
        1,
        "what failed is not taken for sent"
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_sends_what_was_recorded_before() {
    let stage = Stage::start();
    stage.say("web-1", "Stopped", "x");
    stage.token.cancel();
    stage.publisher.await.unwrap();
    let events: Api<CoreEvent> = Api::default_namespaced(stage.server.client());
    assert_eq!(
        events
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    stage.recorder.record(event("web-1", "TooLate", "x"));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_never_answers_does_not_hold_up_the_end() {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
    });
    let (recorder, publisher) = channel(COMPONENT, || Timestamp::UNIX_EPOCH);
    let token = CancellationToken::new();
    let publisher = tokio::spawn(publisher.run(Client::new(service, "default"), token.clone()));
    for n in 0..2 * QUEUE_CAPACITY {
        recorder.record(event("web-1", &format!("Reason{n}"), "x"));
    }
    sleep(Duration::from_secs(15)).await;
    let cancelled = Instant::now();
    token.cancel();
    publisher.await.unwrap();
    assert!(cancelled.elapsed() <= SHUTDOWN_GRACE + Duration::from_millis(2));
}

#[tokio::test(start_paused = true)]
async fn the_same_run_gives_the_same_names() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let stage = Stage::start();
        stage.say("web-1", "Created", "Created VirtualMachine web-1");
        runs.push(stage.seen().await["Created"].metadata.name.clone());
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test(start_paused = true)]
async fn long_names_and_objects_without_namespace_have_events_too() {
    let stage = Stage::start();
    let mut long = event(
        &format!("{}.{}", "a".repeat(235), "b".repeat(17)),
        "Long",
        "x",
    );
    stage.recorder.record(long.clone());
    long.object = ObjectReference {
        namespace: None,
        uid: None,
        ..object("node-1")
    };
    long.reason = "Everywhere".to_owned();
    stage.recorder.record(long);
    let seen = stage.seen().await;
    let name = seen["Long"].metadata.name.as_deref().unwrap();
    assert_eq!(name.len(), 235 + 17);
    assert_eq!(
        seen["Everywhere"].metadata.namespace.as_deref(),
        Some("default")
    );
}

#[rstest]
#[case("", "")]
#[case("a\x1b[31mb\u{0}c", "a [31mb c")]
#[case(&"ä".repeat(512), &"ä".repeat(512))]
#[case(&"ä".repeat(513), &format!("{}...", "ä".repeat(510)))]
fn messages_are_clean_and_bounded(#[case] message: &str, #[case] expected: &str) {
    let bounded = bounded(&one_line(message));
    assert_eq!(bounded, expected);
    assert!(bounded.len() <= MAX_MESSAGE_BYTES);
}
