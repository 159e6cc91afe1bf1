use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

fn object(name: &str, uid: &str, version: &str) -> ConfigMap {
    owned(name, uid, version, "")
}

fn owned(name: &str, uid: &str, version: &str, owner: &str) -> ConfigMap {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()).filter(|name| !name.is_empty()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
            labels: Some(BTreeMap::from([("owner".to_owned(), owner.to_owned())])),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn key(text: &str) -> Key {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    Key::new(namespace, name)
}

fn deleted(name: &str, uid: &str, version: &str) -> WatchEvent<ConfigMap> {
    WatchEvent::Deleted(identity(name, uid, version))
}

fn identity(name: &str, uid: &str, version: &str) -> Identity {
    let key = key(name);
    Identity {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        uid: uid.to_owned(),
        resource_version: version.to_owned(),
    }
}

fn ended<T>(version: &str) -> WatchEvent<T> {
    WatchEvent::ListCompleted {
        resource_version: version.to_owned(),
    }
}

/// The versions before and after.
type Told = (Option<String>, Option<String>);

fn told(difference: &Delta<ConfigMap>) -> (String, Told) {
    let version = |object: &Option<Arc<ConfigMap>>| {
        object
            .as_ref()
            .and_then(|object| object.metadata.resource_version.clone())
    };
    (
        difference.key.to_string(),
        (version(&difference.old), version(&difference.new)),
    )
}

fn from_to(old: &str, new: &str) -> Told {
    let version = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    (version(old), version(new))
}

fn apply(store: &mut Cache<ConfigMap>, change: WatchEvent<ConfigMap>) -> Vec<(String, Told)> {
    store.apply("", change).iter().map(told).collect()
}

fn listed(objects: Vec<ConfigMap>, version: &str) -> Cache<ConfigMap> {
    let mut store = Cache::new();
    store.apply("", WatchEvent::ListStarted);
    for object in objects {
        store.apply("", WatchEvent::Listed(object));
    }
    store.apply("", ended(version));
    store
}

fn held(store: &Cache<ConfigMap>) -> Vec<(String, String)> {
    store
        .iter()
        .map(|(key, object)| {
            let version = object.metadata.resource_version.clone();
            (key.to_string(), version.unwrap_or_default())
        })
        .collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()))
        .collect()
}

#[test]
fn a_store_is_synced_when_the_first_list_is_complete() {
    let mut store = Cache::new();
    assert!(!store.synced());
    store.apply("", WatchEvent::ListStarted);
    let told = apply(&mut store, WatchEvent::Listed(object("n/a", "1", "5")));
    assert_eq!(told, [("n/a".to_owned(), from_to("", "5"))]);
    assert!(!store.synced());
    store.apply("", ended("7"));
    assert!(store.synced());
    store.apply("", WatchEvent::ListStarted);
    assert!(store.synced(), "while it lists again it is merely old");
}

#[test]
fn changes_tell_what_was_and_what_is() {
    let mut store = listed(vec![object("n/a", "1", "5")], "7");
    let told = apply(&mut store, WatchEvent::Applied(object("n/a", "1", "8")));
    assert_eq!(told, [("n/a".to_owned(), from_to("5", "8"))]);
    let told = apply(&mut store, deleted("n/a", "1", "9"));
    assert_eq!(told, [("n/a".to_owned(), from_to("8", ""))]);
    assert!(store.is_empty());
    assert!(apply(&mut store, deleted("n/a", "1", "9")).is_empty());
}

#[test]
fn a_list_replaces_what_vanished_in_a_gap() {
    let mut store = listed(vec![object("n/a", "1", "5"), object("n/b", "2", "6")], "7");
    store.apply("", WatchEvent::ListStarted);
    assert!(apply(&mut store, WatchEvent::Listed(object("n/b", "2", "6"))).is_empty());
    assert_eq!(
        store.len(),
        2,
        "nothing is dropped before the list is complete"
    );
    let told = apply(&mut store, ended("20"));
    assert_eq!(told, [("n/a".to_owned(), from_to("5", ""))]);
}

#[test]
fn a_list_that_begins_anew_drops_nothing_by_mistake() {
    let mut store = listed(vec![object("n/a", "1", "5")], "7");
    store.apply("", WatchEvent::ListStarted);
    store.apply("", WatchEvent::Listed(object("n/a", "1", "5")));
    store.apply("", WatchEvent::ListStarted);
    store.apply("", WatchEvent::Listed(object("n/a", "1", "5")));
    assert!(apply(&mut store, ended("20")).is_empty());
    assert_eq!(store.len(), 1);
}

#[test]
fn a_cluster_that_was_restored_counts_anew() {
    let mut store = listed(vec![object("n/a", "1", "500")], "700");
    store.apply("", WatchEvent::ListStarted);
    let told = apply(&mut store, WatchEvent::Listed(object("n/a", "1", "50")));
    assert_eq!(told, [("n/a".to_owned(), from_to("500", "50"))]);
    store.apply("", ended("70"));
    assert_eq!(held(&store), pairs(&[("n/a", "50")]));
    assert!(store.assume(object("n/b", "2", "71")).is_some());
}

#[test]
fn what_we_wrote_is_not_hidden_by_older_events() {
    let mut store = listed(vec![object("n/a", "1", "5")], "7");
    assert!(store.assume(object("n/a", "1", "10")).is_some());
    assert!(apply(&mut store, WatchEvent::Applied(object("n/a", "1", "8"))).is_empty());
    assert!(apply(&mut store, WatchEvent::Applied(object("n/a", "1", "10"))).is_empty());
    assert_eq!(held(&store), pairs(&[("n/a", "10")]));
    assert!(store.assume(object("n/a", "1", "9")).is_none());
    let told = apply(&mut store, WatchEvent::Applied(object("n/a", "1", "11")));
    assert_eq!(told, [("n/a".to_owned(), from_to("10", "11"))]);
}

#[test]
fn versions_that_are_no_numbers_are_taken_as_they_come() {
    let mut store = listed(vec![object("n/a", "1", "x9")], "x9");
    assert_eq!(
        apply(&mut store, WatchEvent::Applied(object("n/a", "1", "x1"))).len(),
        1
    );
    assert!(store.assume(object("n/a", "1", "x0")).is_some());
    assert_eq!(apply(&mut store, deleted("n/a", "1", "x0")).len(), 1);
}

#[test]
fn the_deletion_of_a_predecessor_does_not_take_what_we_created_since() {
    let mut store = listed(vec![object("n/a", "old", "5")], "7");
    store.assume(object("n/a", "new", "10"));
    assert!(apply(&mut store, deleted("n/a", "old", "9")).is_empty());
    assert_eq!(held(&store), pairs(&[("n/a", "10")]));
}

#[test]
fn what_we_deleted_does_not_come_back() {
    let mut store = listed(vec![object("n/a", "1", "5")], "7");
    assert!(store.assume_deleted(&key("n/a"), "other").is_none());
    assert!(store.assume_deleted(&key("n/a"), "1").is_some());
    assert!(apply(&mut store, WatchEvent::Applied(object("n/a", "1", "8"))).is_empty());
    assert!(store.assume(object("n/a", "1", "8")).is_none());
    assert!(apply(&mut store, deleted("n/a", "1", "9")).is_empty());
    assert!(store.is_empty());
    assert!(store.buried.is_empty());

    let told = apply(&mut store, WatchEvent::Applied(object("n/a", "2", "12")));
    assert_eq!(told, [("n/a".to_owned(), from_to("", "12"))]);
}

#[test]
fn an_answer_that_comes_after_the_news_of_the_end_is_no_news() {
    let mut store = listed(Vec::new(), "7");
    store.apply("", WatchEvent::Applied(object("n/a", "1", "10")));
    store.apply("", deleted("n/a", "1", "11"));
    assert!(store.assume(object("n/a", "1", "10")).is_none());
    assert!(store.is_empty());
}

#[test]
fn a_list_keeps_what_we_wrote_after_it_and_drops_what_ended_before_it() {
    let mut store = listed(Vec::new(), "7");
    store.assume(object("n/before", "1", "8"));
    store.apply("", WatchEvent::ListStarted);
    store.assume(object("n/during", "2", "9"));
    store.assume(object("n/after", "3", "12"));
    store.apply("", WatchEvent::Listed(object("n/listed", "4", "6")));
    store.apply("", ended("10"));
    assert_eq!(held(&store), pairs(&[("n/after", "12"), ("n/listed", "6")]));
}

#[test]
fn a_list_does_not_take_back_what_we_wrote_after_it() {
    let mut store = listed(vec![object("n/a", "1", "5")], "7");
    store.apply("", WatchEvent::ListStarted);
    store.assume(object("n/a", "1", "12"));
    store.apply("", WatchEvent::Listed(object("n/a", "1", "5")));
    store.apply("", ended("10"));
    assert_eq!(held(&store), pairs(&[("n/a", "12")]));
}

#[test]
fn an_object_that_cannot_be_decoded_keeps_its_last_state() {
    let mut store = listed(vec![object("n/a", "1", "5")], "7");
    let undecodable = |version: &str| WatchEvent::Undecodable {
        identity: identity("n/a", "1", version),
        error: "missing field `spec`".to_owned(),
    };
    let told = apply(&mut store, undecodable("8"));
    assert_eq!(told, [("n/a".to_owned(), from_to("5", "5"))]);
    assert_eq!(store.undecodable(&key("n/a")), Some("missing field `spec`"));

    store.apply("", WatchEvent::ListStarted);
    store.apply("", undecodable("8"));
    assert!(apply(&mut store, ended("9")).is_empty());
    assert_eq!(store.len(), 1);
    assert!(store.undecodable(&key("n/a")).is_some());

    store.apply("", WatchEvent::Applied(object("n/a", "1", "10")));
    assert_eq!(store.undecodable(&key("n/a")), None);
}

#[test]
fn the_end_of_an_object_that_was_never_decoded_is_told() {
    let mut store = listed(Vec::new(), "7");
    let change = WatchEvent::Undecodable {
        identity: identity("n/a", "1", "8"),
        error: String::new(),
    };
    assert_eq!(
        apply(&mut store, change),
        [("n/a".to_owned(), from_to("", ""))]
    );
    assert_eq!(
        apply(&mut store, deleted("n/a", "1", "9")),
        [("n/a".to_owned(), from_to("", ""))]
    );
    assert_eq!(store.undecodable(&key("n/a")), None);
}

#[test]
fn the_index_follows_the_objects() {
    let index = |object: &ConfigMap| {
        let labels = object.metadata.labels.iter().flatten();
        labels.map(|(_, owner)| owner.clone()).collect()
    };
    let mut store = Cache::indexed([""], index);
    let names = |store: &Cache<ConfigMap, String>, owner: &str| -> Vec<String> {
        let found = store.by_index(&owner.to_owned());
        found.map(|(key, _)| key.to_string()).collect()
    };
    store.apply("", WatchEvent::ListStarted);
    for name in ["n/b", "n/a", "m/c"] {
        store.apply("", WatchEvent::Listed(owned(name, name, "5", "x")));
    }
    store.apply("", ended("7"));
    assert_eq!(names(&store, "x"), ["m/c", "n/a", "n/b"]);

    store.apply("", WatchEvent::Applied(owned("n/a", "n/a", "8", "y")));
    store.assume_deleted(&key("n/b"), "n/b");
    assert_eq!(names(&store, "x"), ["m/c"]);
    assert_eq!(names(&store, "y"), ["n/a"]);
    assert_eq!(store.indexed.len(), 2);
}

#[test]
fn a_namespace_is_looked_at_by_itself() {
    let store = listed(
        vec![
            object("m/a", "1", "5"),
            object("n/a", "2", "5"),
            object("n/b", "3", "5"),
            object("nn/a", "4", "5"),
        ],
        "7",
    );
    let names: Vec<_> = store
        .in_namespace("n")
        .map(|(key, _)| key.to_string())
        .collect();
    assert_eq!(names, ["n/a", "n/b"]);
}

#[test]
fn the_watches_of_several_namespaces_do_not_touch_each_other() {
    let mut store = Cache::indexed(["m", "n"], |_: &ConfigMap| Vec::<()>::new());
    for namespace in ["m", "n"] {
        assert!(!store.synced());
        store.apply(namespace, WatchEvent::ListStarted);
        let name = format!("{namespace}/a");
        store.apply(namespace, WatchEvent::Listed(object(&name, namespace, "5")));
        store.apply(namespace, ended("7"));
    }
    assert!(store.synced());

    store.apply("m", WatchEvent::Applied(object("m/b", "3", "20")));
    assert!(
        store.assume(object("n/b", "4", "15")).is_some(),
        "that one watch is further says nothing of the other"
    );
    store.apply("m", WatchEvent::ListStarted);
    let told: Vec<_> = store.apply("m", ended("30")).iter().map(told).collect();
    assert_eq!(
        told,
        [
            ("m/a".to_owned(), from_to("5", "")),
            ("m/b".to_owned(), from_to("20", ""))
        ]
    );
    assert_eq!(store.len(), 2);
}
