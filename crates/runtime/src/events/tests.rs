use std::collections::BTreeMap;

use apiserver::{ApiServer, Options};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};
use rstest::rstest;
use tokio::{task::JoinHandle, time::advance};

use super::*;

const COMPONENT: &str = "kubevirt-operator";

/// An API server and a publisher that sends to it.
struct RunningPublisher {
    server: ApiServer,
    recorder: Recorder,
    token: CancellationToken,
    publisher: JoinHandle<()>,
}

impl RunningPublisher {
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

    fn record(&self, object: &str, reason: &str, message: &str) {
        self.recorder.record(event(object, reason, message));
    }

    /// All Events by reason, when everything is sent.
    async fn events(&self) -> BTreeMap<String, CoreEvent> {
        // Until all pending tasks have run.
        sleep(Duration::from_millis(1)).await;
        let events: Api<CoreEvent> = Api::all(self.server.client());
        let events = events.list(&ListParams::default()).await.unwrap();
        events
            .into_iter()
            .map(|event| (event.reason.clone().unwrap(), event))
            .collect()
    }

    async fn count(&self, reason: &str) -> i32 {
        self.events()
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
async fn an_event_has_its_object_reason_message_and_time() {
    let publisher = RunningPublisher::start();
    publisher.recorder.record(Event {
        event_type: EventType::Warning,
        ..event(
            "web-1",
            "StorageClassNotFound",
            "There is no StorageClass\n\"fast\"",
        )
    });
    let recorded = publisher.server.now();
    let events = publisher.events().await;
    let event = &events["StorageClassNotFound"];
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
async fn repetitions_are_counted_and_sent_once_a_minute() {
    let publisher = RunningPublisher::start();
    for _ in 0..50 {
        publisher.record("web-1", "Waiting", "Waiting for the volume");
    }
    assert_eq!(publisher.count("Waiting").await, 1);
    advance(Duration::from_secs(59)).await;
    publisher.record("web-1", "Waiting", "Waiting for the volume");
    assert_eq!(publisher.count("Waiting").await, 1);
    advance(Duration::from_secs(1)).await;
    publisher.record("web-1", "Waiting", "Waiting for the volume");
    let events = publisher.events().await;
    assert_eq!(events.len(), 1);
    let event = &events["Waiting"];
    assert_eq!(event.count, Some(52));
    assert!(event.last_timestamp > event.first_timestamp);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_after_the_window_is_a_new_event() {
    let publisher = RunningPublisher::start();
    publisher.record("web-1", "Restarted", "Restarted");
    publisher.events().await;
    advance(REPEAT_WINDOW + Duration::from_secs(1)).await;
    publisher.record("web-1", "Restarted", "Restarted");
    sleep(Duration::from_millis(1)).await;
    let events: Api<CoreEvent> = Api::default_namespaced(publisher.server.client());
    let found = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(
        found.iter().map(|event| event.count).collect::<Vec<_>>(),
        [Some(1), Some(1)]
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_expired_is_created_again_with_its_count() {
    let publisher = RunningPublisher::start();
    publisher.record("web-1", "Waiting", "Waiting");
    let name = publisher.events().await["Waiting"].metadata.name.clone();
    let name = name.unwrap();
    let api: Api<CoreEvent> = Api::default_namespaced(publisher.server.client());
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    advance(COUNT_INTERVAL).await;
    publisher.record("web-1", "Waiting", "Waiting");
    assert_eq!(publisher.count("Waiting").await, 2);
}

#[tokio::test(start_paused = true)]
async fn one_object_does_not_flood_the_cluster() {
    let publisher = RunningPublisher::start();
    for n in 0..100 {
        publisher.record("noisy", &format!("Reason{n}"), "x");
    }
    publisher.record("quiet", "Received", "x");
    let events = publisher.events().await;
    assert_eq!(events.len(), usize::try_from(BURST).unwrap() + 1);
    assert!(events.contains_key("Received"));

    advance(REFILL_INTERVAL).await;
    publisher.record("noisy", "Later", "x");
    publisher.record("noisy", "TooMuch", "x");
    let events = publisher.events().await;
    assert!(events.contains_key("Later"));
    assert!(!events.contains_key("TooMuch"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_does_not_block_other_events() {
    let publisher = RunningPublisher::start();
    let mut lost = event("web-1", "Lost", "x");
    lost.object.namespace = Some("gone".to_owned());
    publisher.recorder.record(lost.clone());
    publisher.record("web-1", "Received", "x");
    assert_eq!(
        publisher.events().await.into_keys().collect::<Vec<_>>(),
        ["Received"]
    );

    let namespaces: Api<Namespace> = Api::all(publisher.server.client());
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "gone"}})).unwrap();
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    publisher.recorder.record(lost);
    assert_eq!(
        publisher.count("Lost").await,
        1,
        "a failed Event counts as not sent"
    );
}

#[tokio::test(start_paused = true)]
async fn shutdown_sends_queued_events() {
    let publisher = RunningPublisher::start();
    publisher.record("web-1", "Stopped", "x");
    publisher.token.cancel();
    publisher.publisher.await.unwrap();
    let events: Api<CoreEvent> = Api::default_namespaced(publisher.server.client());
    assert_eq!(
        events
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    publisher.recorder.record(event("web-1", "TooLate", "x"));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_never_answers_does_not_delay_shutdown() {
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
async fn names_of_events_are_repeatable() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let publisher = RunningPublisher::start();
        publisher.record("web-1", "Created", "Created VirtualMachine web-1");
        runs.push(publisher.events().await["Created"].metadata.name.clone());
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test(start_paused = true)]
async fn objects_with_long_names_or_without_namespace_have_events() {
    let publisher = RunningPublisher::start();
    let mut long = event(
        &format!("{}.{}", "a".repeat(235), "b".repeat(17)),
        "Long",
        "x",
    );
    publisher.recorder.record(long.clone());
    long.object = ObjectReference {
        namespace: None,
        uid: None,
        ..object("node-1")
    };
    long.reason = "Everywhere".to_owned();
    publisher.recorder.record(long);
    let events = publisher.events().await;
    let name = events["Long"].metadata.name.as_deref().unwrap();
    assert_eq!(name.len(), 235 + 17);
    assert_eq!(
        events["Everywhere"].metadata.namespace.as_deref(),
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
