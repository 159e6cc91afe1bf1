//! Reflectors of an API server in memory, with faults in between.

mod faults;

use std::{collections::BTreeMap, pin::Pin};

use apiserver::{ApiServer, Options};
use futures::StreamExt;
use k8s_openapi::{
    api::{
        core::v1::ConfigMap,
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    api::{DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind, PartialObjectMeta},
};
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::cache::{Cache, Key, WatchScope};
use faults::{Fault, Faults};

type Events<T> = Pin<Box<dyn Stream<Item = WatchEvent<T>> + Send>>;

fn server() -> ApiServer {
    ApiServer::start(Options::seeded(1))
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([("selected".to_owned(), "yes".to_owned())])),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

async fn create(server: &ApiServer, name: &str) -> ConfigMap {
    let created = maps(server.client())
        .create(&PostParams::default(), &map(name))
        .await;
    created.unwrap()
}

async fn delete(server: &ApiServer, name: &str) {
    let maps = maps(server.client());
    maps.delete(name, &DeleteParams::default()).await.unwrap();
}

async fn set(server: &ApiServer, name: &str, data: &str) {
    let patch = Patch::Merge(json!({"data": {"a": data}}));
    let maps = maps(server.client());
    let patched = maps.patch(name, &PatchParams::default(), &patch).await;
    patched.unwrap();
}

fn selected() -> Config {
    Config {
        label_selector: Some("selected=yes".to_owned()),
        ..Config::default()
    }
}

fn watched(client: Client) -> Events<ConfigMap> {
    Box::pin(reflector(
        maps(client),
        selected(),
        Random::seeded(1),
        |mut map: ConfigMap| {
            map.metadata.managed_fields = None;
            map
        },
    ))
}

/// Summary of the next event.
async fn next(events: &mut Events<ConfigMap>) -> String {
    summary(events.next().await.unwrap())
}

fn summary(event: WatchEvent<ConfigMap>) -> String {
    let name = |map: &ConfigMap| map.metadata.name.clone().unwrap_or_default();
    match event {
        WatchEvent::ListStarted => "started".to_owned(),
        WatchEvent::Listed(map) => format!("listed {}", name(&map)),
        WatchEvent::ListCompleted { .. } => "completed".to_owned(),
        WatchEvent::Applied(map) => format!("applied {}", name(&map)),
        WatchEvent::Deleted(identity) => format!("deleted {}", identity.name),
        WatchEvent::Undecodable { identity, error } => format!("{}: {error}", identity.name),
        WatchEvent::Failing(failure) => format!("failing {:?}", failure.code),
        WatchEvent::Recovered => "recovered".to_owned(),
    }
}

async fn sequence<const N: usize>(events: &mut Events<ConfigMap>) -> [String; N] {
    let mut summaries = [const { String::new() }; N];
    for summary in &mut summaries {
        *summary = next(events).await;
    }
    summaries
}

/// Summaries of the events within a time.
async fn within(events: &mut Events<ConfigMap>, time: Duration) -> Vec<String> {
    let end = Instant::now() + time;
    let mut summaries = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout_at(end, events.next()).await {
        summaries.push(summary(event));
    }
    summaries
}

#[tokio::test(start_paused = true)]
async fn lists_and_then_watches() {
    let server = server();
    create(&server, "a").await;
    create(&server, "b").await;
    let mut events = watched(server.client());
    let summaries = sequence(&mut events).await;
    assert_eq!(summaries, ["started", "listed a", "listed b", "completed"]);

    create(&server, "c").await;
    set(&server, "a", "new").await;
    delete(&server, "b").await;
    let summaries = sequence(&mut events).await;
    assert_eq!(summaries, ["applied c", "applied a", "deleted b"]);

    let hour = Duration::from_secs(3600);
    let summaries = within(&mut events, hour).await;
    assert!(summaries.is_empty(), "{summaries:?}");
    create(&server, "d").await;
    assert_eq!(next(&mut events).await, "applied d");
}

#[tokio::test(start_paused = true)]
async fn only_selected_objects_are_delivered() {
    let server = server();
    let mut other = map("other");
    other.metadata.labels = None;
    let maps = maps(server.client());
    maps.create(&PostParams::default(), &other).await.unwrap();
    let mut events = watched(server.client());
    assert_eq!(sequence(&mut events).await, ["started", "completed"]);

    create(&server, "a").await;
    assert_eq!(next(&mut events).await, "applied a");
    let unlabel = Patch::Merge(json!({"metadata": {"labels": null}}));
    let patched = maps.patch("a", &PatchParams::default(), &unlabel).await;
    patched.unwrap();
    assert_eq!(next(&mut events).await, "deleted a");
}

#[tokio::test(start_paused = true)]
async fn the_caller_trims_objects() {
    let server = server();
    create(&server, "a").await;
    let managers = |map: ConfigMap| {
        let fields = map.metadata.managed_fields.unwrap_or_default();
        (map.metadata.name, fields.len())
    };
    let mut events = Box::pin(reflector(
        maps(server.client()),
        selected(),
        Random::seeded(1),
        managers,
    ));
    assert_eq!(events.next().await, Some(WatchEvent::ListStarted));
    let listed = WatchEvent::Listed((Some("a".to_owned()), 1));
    assert_eq!(events.next().await, Some(listed));
}

#[tokio::test(start_paused = true)]
async fn a_page_is_requested_when_the_one_before_is_consumed() {
    let server = server();
    for number in 0..1001 {
        create(&server, &format!("m{number:04}")).await;
    }
    let faults = Faults::none();
    let mut events = watched(faults.client(&server));
    let mut listed = 0;
    while next(&mut events).await != "completed" {
        // Pages of 20, 200, 500 and the rest: their objects are small.
        let pages = [0, 20, 220, 720];
        let requested = pages.iter().filter(|begin| listed > **begin).count();
        assert_eq!(faults.requests().len(), requested, "after {listed} objects");
        listed += 1;
    }
    assert_eq!(listed - 1, 1001);
    assert_eq!(faults.requests().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_new_list_finds_deletions_after_the_history_was_compacted() {
    let server = server();
    create(&server, "a").await;
    create(&server, "b").await;
    let faults = Faults::none();
    let mut events = watched(faults.client(&server));
    let mut store = Cache::new();
    while !store.synced() {
        let event = events.next().await.unwrap();
        store.apply(&WatchScope::Cluster, event);
    }
    assert!(within(&mut events, Duration::from_secs(1)).await.is_empty());

    faults.set(Fault::Refuse);
    faults.cut();
    let summaries = within(&mut events, Duration::from_secs(60)).await;
    assert_eq!(summaries, ["failing None"]);
    delete(&server, "a").await;
    create(&server, "c").await;
    server.compact();
    faults.clear();
    let mut deleted = Vec::new();
    let end = Instant::now() + Duration::from_secs(600);
    while let Ok(Some(event)) = tokio::time::timeout_at(end, events.next()).await {
        let last = matches!(event, WatchEvent::ListCompleted { .. });
        for delta in store.apply(&WatchScope::Cluster, event) {
            if delta.new.is_none() {
                deleted.push(delta.key);
            }
        }
        if last {
            break;
        }
    }
    assert_eq!(deleted, [Key::new("default", "a")]);
    let names: Vec<_> = store.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!(names, ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_expired_continue_token_starts_over() {
    let server = server();
    for number in 0..501 {
        create(&server, &format!("m{number:04}")).await;
    }
    let mut events = watched(server.client());
    // Up to the end of the second page.
    for _ in 0..=220 {
        next(&mut events).await;
    }
    create(&server, "z").await;
    server.compact();
    assert_eq!(next(&mut events).await, "started");
    let mut listed = 0;
    while next(&mut events).await != "completed" {
        listed += 1;
    }
    assert_eq!(listed, 502);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_an_hour_is_reported_once() {
    let server = server();
    let faults = Faults::none();
    let mut events = watched(faults.client(&server));
    assert_eq!(sequence(&mut events).await, ["started", "completed"]);
    assert!(
        within(&mut events, Duration::from_secs(40))
            .await
            .is_empty()
    );

    faults.set(Fault::Refuse);
    faults.cut();
    let before = faults.requests().len();
    let summaries = within(&mut events, Duration::from_secs(3600)).await;
    assert_eq!(summaries, ["failing None"]);
    let tries = faults.requests().len() - before;
    assert!((120..=250).contains(&tries), "{tries} tries");

    create(&server, "a").await;
    faults.clear();
    assert_eq!(sequence(&mut events).await, ["recovered", "applied a"]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_now_and_then_is_not_reported() {
    let server = server();
    let faults = Faults::none();
    let mut events = watched(faults.client(&server));
    assert_eq!(sequence(&mut events).await, ["started", "completed"]);
    for round in 0..5 {
        assert!(
            within(&mut events, Duration::from_secs(40))
                .await
                .is_empty()
        );
        faults.cut();
        create(&server, &format!("m{round}")).await;
        assert_eq!(next(&mut events).await, format!("applied m{round}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_connection_is_closed_after_its_timeout() {
    let server = server();
    let faults = Faults::none();
    faults.set(Fault::SilentWatch);
    let mut events = watched(faults.client(&server));
    assert_eq!(sequence(&mut events).await, ["started", "completed"]);
    let start = Instant::now();
    assert!(within(&mut events, Duration::from_secs(1)).await.is_empty());
    faults.clear();
    create(&server, "a").await;
    assert_eq!(next(&mut events).await, "applied a");
    assert!(start.elapsed() <= Duration::from_secs(311));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_immediately_is_reopened_with_backoff() {
    let server = server();
    let faults = Faults::none();
    faults.set(Fault::EmptyWatch);
    let mut events = watched(faults.client(&server));
    let summaries = within(&mut events, Duration::from_secs(600)).await;
    assert_eq!(summaries[..3], ["started", "completed", "failing None"]);
    let tries = faults.requests().len();
    assert!((20..=50).contains(&tries), "{tries} tries");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let server = server();
    let faults = Faults::none();
    faults.set(Fault::Status(429, Some(120)));
    let mut events = watched(faults.client(&server));
    assert_eq!(next(&mut events).await, "started");
    let Some(WatchEvent::Failing(failure)) = events.next().await else {
        panic!("no failure was reported");
    };
    assert_eq!(failure.code, Some(429));
    assert_eq!(
        failure.summary,
        "Too many requests, please try again later."
    );
    assert_eq!(failure.retry_after, Some(Duration::from_secs(120)));
    assert!(
        within(&mut events, Duration::from_secs(120))
            .await
            .is_empty()
    );
    assert_eq!(faults.requests().len(), 1);
    faults.clear();
    assert_eq!(sequence(&mut events).await, ["completed", "recovered"]);
}

#[tokio::test(start_paused = true)]
async fn each_status_code_is_reported_once() {
    let server = server();
    let faults = Faults::none();
    let mut events = watched(faults.client(&server));
    assert_eq!(next(&mut events).await, "started");
    for (fault, expected) in [
        (Fault::Status(500, None), "failing Some(500)"),
        (Fault::Refuse, "failing None"),
        (Fault::Hang, ""),
        (Fault::Status(503, None), "failing Some(503)"),
    ] {
        faults.set(fault);
        let summaries = within(&mut events, Duration::from_secs(300)).await;
        assert_eq!(summaries.join(" "), expected);
    }
    faults.clear();
    assert_eq!(sequence(&mut events).await, ["completed", "recovered"]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_reported_once_and_watched_when_it_exists() {
    let server = server();
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(server.client(), &resource);
    let mut events = Box::pin(reflector(
        api,
        Config::default(),
        Random::seeded(1),
        |object| object,
    ));
    assert_eq!(events.next().await, Some(WatchEvent::ListStarted));
    let Some(WatchEvent::Failing(failure)) = events.next().await else {
        panic!("no failure was reported");
    };
    assert_eq!(failure.code, Some(404));
    let hour = Duration::from_secs(3600);
    assert!(tokio::time::timeout(hour, events.next()).await.is_err());

    define_widgets(&server).await;
    let completed = events.next().await;
    assert!(matches!(completed, Some(WatchEvent::ListCompleted { .. })));
    assert_eq!(events.next().await, Some(WatchEvent::Recovered));
}

async fn define_widgets(server: &ApiServer) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    let definition = serde_json::from_value(definition).unwrap();
    let created = definitions
        .create(&PostParams::default(), &definition)
        .await;
    created.unwrap();
}

#[tokio::test(start_paused = true)]
async fn missing_permissions_are_reported_once_and_used_when_granted() {
    let server = server();
    let mut events = watched(server.client_of("default", "reader"));
    let summaries = sequence(&mut events).await;
    assert_eq!(summaries, ["started", "failing Some(403)"]);
    let summaries = within(&mut events, Duration::from_secs(600)).await;
    assert!(summaries.is_empty(), "{summaries:?}");

    grant(&server).await;
    assert_eq!(sequence(&mut events).await, ["completed", "recovered"]);
}

async fn grant(server: &ApiServer) {
    let metadata = ObjectMeta {
        name: Some("reader".to_owned()),
        ..ObjectMeta::default()
    };
    let strings = |strings: &[&str]| strings.iter().map(|text| (*text).to_owned()).collect();
    let role = ClusterRole {
        metadata: metadata.clone(),
        rules: Some(vec![PolicyRule {
            api_groups: Some(strings(&[""])),
            resources: Some(strings(&["configmaps"])),
            verbs: strings(&["list", "watch"]),
            ..PolicyRule::default()
        }]),
        ..ClusterRole::default()
    };
    let binding = ClusterRoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: "reader".to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: "reader".to_owned(),
            namespace: Some("default".to_owned()),
            ..Subject::default()
        }]),
    };
    let params = PostParams::default();
    let roles: Api<ClusterRole> = Api::all(server.client());
    roles.create(&params, &role).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(server.client());
    bindings.create(&params, &binding).await.unwrap();
}

/// A type that some ConfigMaps do not decode as.
#[derive(kube::Resource, Clone, Debug, PartialEq, Deserialize)]
#[resource(inherit = "ConfigMap")]
struct Strict {
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, Word>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Good,
    Fine,
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_does_not_affect_others() {
    let server = server();
    for name in ["a", "b", "c"] {
        create(&server, name).await;
    }
    set(&server, "b", "s3cret").await;
    let api: Api<Strict> = Api::namespaced(server.client(), "default");
    let mut events = Box::pin(reflector(
        api,
        selected(),
        Random::seeded(1),
        |strict: Strict| strict.metadata.name.unwrap_or_default(),
    ));
    let mut summaries = Vec::new();
    for _ in 0..5 {
        summaries.push(events.next().await.unwrap());
    }
    let [_, a, WatchEvent::Undecodable { identity, error }, c, _] = &summaries[..] else {
        panic!("{summaries:?}");
    };
    assert_eq!(*a, WatchEvent::Listed("a".to_owned()));
    assert_eq!(*c, WatchEvent::Listed("c".to_owned()));
    assert_eq!((&*identity.namespace, &*identity.name), ("default", "b"));
    assert_eq!(error, "data.a: unknown variant, expected `good` or `fine`");

    set(&server, "a", "s3cret").await;
    set(&server, "b", "good").await;
    delete(&server, "a").await;
    let broken = events.next().await.unwrap();
    assert!(
        matches!(broken, WatchEvent::Undecodable { .. }),
        "{broken:?}"
    );
    assert_eq!(
        events.next().await,
        Some(WatchEvent::Applied("b".to_owned()))
    );
    let deleted = events.next().await.unwrap();
    assert!(matches!(deleted, WatchEvent::Deleted(identity) if identity.name == "a"));
}

#[tokio::test(start_paused = true)]
async fn metadata_can_be_watched_without_the_objects() {
    let server = server();
    create(&server, "a").await;
    set(&server, "a", "data").await;
    let api: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(server.client(), "default");
    let config = Config {
        metadata_only: true,
        ..selected()
    };
    let kind = |object: PartialObjectMeta<ConfigMap>| object.types.map(|types| types.kind);
    let mut events = Box::pin(reflector(api, config, Random::seeded(1), kind));
    events.next().await;
    events.next().await;
    events.next().await;
    create(&server, "b").await;
    let partial = Some("PartialObjectMetadata".to_owned());
    assert_eq!(events.next().await, Some(WatchEvent::Applied(partial)));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_closes_the_connection() {
    let server = server();
    let faults = Faults::none();
    let mut events = watched(faults.client(&server));
    assert_eq!(sequence(&mut events).await, ["started", "completed"]);
    assert!(within(&mut events, Duration::from_secs(1)).await.is_empty());
    assert_eq!(faults.open(), 1);
    drop(events);
    assert_eq!(faults.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_delays() {
    async fn run(seed: u64) -> Vec<Duration> {
        let server = server();
        let faults = Faults::none();
        faults.set(Fault::Refuse);
        let api = maps(faults.client(&server));
        let mut events: Events<ConfigMap> =
            Box::pin(reflector(api, selected(), Random::seeded(seed), |map| map));
        let start = Instant::now();
        within(&mut events, Duration::from_secs(600)).await;
        let requests = faults.requests();
        requests.into_iter().map(|time| time - start).collect()
    }
    let first = run(1).await;
    assert_eq!(first, run(1).await);
    assert_ne!(first, run(2).await);
}

#[test]
fn pages_have_more_objects_if_these_are_small() {
    let long = |objects: usize, size: usize, last| next_page_size(objects, objects * size, last);
    assert_eq!(long(20, 3_000, 20), 200, "ten times as long at most");
    assert_eq!(long(200, 3_000, 200), 500, "never longer than this");
    assert_eq!(long(20, 1_500_000, 20), 2, "a page of the largest objects");
    assert_eq!(long(2, 1_500_000, 2), 2);
    assert_eq!(long(1, 8_000_000, 1), 1);
    assert_eq!(next_page_size(0, 0, 20), 20);
}
