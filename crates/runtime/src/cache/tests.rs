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

fn list_completed<T>(version: &str) -> WatchEvent<T> {
    WatchEvent::ListCompleted {
        resource_version: version.to_owned(),
    }
}

/// The versions before and after.
type Versions = (Option<String>, Option<String>);

fn summary(delta: &Delta<ConfigMap>) -> (String, Versions) {
    let version = |object: &Option<Arc<ConfigMap>>| {
        object
            .as_ref()
            .and_then(|object| object.metadata.resource_version.clone())
    };
    (
        delta.key.to_string(),
        (version(&delta.old), version(&delta.new)),
    )
}

fn from_to(old: &str, new: &str) -> Versions {
    let version = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    (version(old), version(new))
}

fn apply(cache: &mut Cache<ConfigMap>, event: WatchEvent<ConfigMap>) -> Vec<(String, Versions)> {
    cache
        .apply(&WatchScope::Cluster, event)
        .iter()
        .map(summary)
        .collect()
}

fn listed(objects: Vec<ConfigMap>, version: &str) -> Cache<ConfigMap> {
    let mut cache = Cache::new();
    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    for object in objects {
        cache.apply(&WatchScope::Cluster, WatchEvent::Listed(object));
    }
    cache.apply(&WatchScope::Cluster, list_completed(version));
    cache
}

fn cached(cache: &Cache<ConfigMap>) -> Vec<(String, String)> {
    cache
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
fn a_cache_is_synced_when_the_first_list_is_complete() {
    let mut cache = Cache::new();
    assert!(!cache.synced());
    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    let deltas = apply(&mut cache, WatchEvent::Listed(object("n/a", "1", "5")));
    assert_eq!(deltas, [("n/a".to_owned(), from_to("", "5"))]);
    assert!(!cache.synced());
    cache.apply(&WatchScope::Cluster, list_completed("7"));
    assert!(cache.synced());
    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    assert!(cache.synced(), "while it lists again it is merely old");
}

#[test]
fn deltas_have_the_old_and_the_new_object() {
    let mut cache = listed(vec![object("n/a", "1", "5")], "7");
    let deltas = apply(&mut cache, WatchEvent::Applied(object("n/a", "1", "8")));
    assert_eq!(deltas, [("n/a".to_owned(), from_to("5", "8"))]);
    let deltas = apply(&mut cache, deleted("n/a", "1", "9"));
    assert_eq!(deltas, [("n/a".to_owned(), from_to("8", ""))]);
    assert!(cache.objects.is_empty());
    assert!(apply(&mut cache, deleted("n/a", "1", "9")).is_empty());
}

#[test]
fn a_list_drops_objects_that_were_deleted_while_the_watch_was_down() {
    let mut cache = listed(vec![object("n/a", "1", "5"), object("n/b", "2", "6")], "7");
    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    assert!(apply(&mut cache, WatchEvent::Listed(object("n/b", "2", "6"))).is_empty());
    assert_eq!(
        cache.objects.len(),
        2,
        "nothing is dropped before the list is complete"
    );
    let deltas = apply(&mut cache, list_completed("20"));
    assert_eq!(deltas, [("n/a".to_owned(), from_to("5", ""))]);
}

#[test]
fn a_restarted_list_drops_only_what_it_does_not_contain() {
    let mut cache = listed(vec![object("n/a", "1", "5")], "7");
    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    cache.apply(
        &WatchScope::Cluster,
        WatchEvent::Listed(object("n/a", "1", "5")),
    );
    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    cache.apply(
        &WatchScope::Cluster,
        WatchEvent::Listed(object("n/a", "1", "5")),
    );
    assert!(apply(&mut cache, list_completed("20")).is_empty());
    assert_eq!(cache.objects.len(), 1);
}

#[test]
fn a_list_of_a_restored_cluster_replaces_greater_versions() {
    let mut cache = listed(vec![object("n/a", "1", "500")], "700");
    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    let deltas = apply(&mut cache, WatchEvent::Listed(object("n/a", "1", "50")));
    assert_eq!(deltas, [("n/a".to_owned(), from_to("500", "50"))]);
    cache.apply(&WatchScope::Cluster, list_completed("70"));
    assert_eq!(cached(&cache), pairs(&[("n/a", "50")]));
    assert!(cache.assume(object("n/b", "2", "71")).is_some());
}

#[test]
fn an_older_event_does_not_replace_our_write() {
    let mut cache = listed(vec![object("n/a", "1", "5")], "7");
    assert!(cache.assume(object("n/a", "1", "10")).is_some());
    assert!(apply(&mut cache, WatchEvent::Applied(object("n/a", "1", "8"))).is_empty());
    assert!(apply(&mut cache, WatchEvent::Applied(object("n/a", "1", "10"))).is_empty());
    assert_eq!(cached(&cache), pairs(&[("n/a", "10")]));
    assert!(cache.assume(object("n/a", "1", "9")).is_none());
    let deltas = apply(&mut cache, WatchEvent::Applied(object("n/a", "1", "11")));
    assert_eq!(deltas, [("n/a".to_owned(), from_to("10", "11"))]);
}

#[test]
fn versions_that_are_not_numbers_are_kept_in_order_of_arrival() {
    let mut cache = listed(vec![object("n/a", "1", "x9")], "x9");
    assert_eq!(
        apply(&mut cache, WatchEvent::Applied(object("n/a", "1", "x1"))).len(),
        1
    );
    assert!(cache.assume(object("n/a", "1", "x0")).is_some());
    assert_eq!(apply(&mut cache, deleted("n/a", "1", "x0")).len(), 1);
}

#[test]
fn the_deletion_of_a_predecessor_keeps_the_object_that_replaced_it() {
    let mut cache = listed(vec![object("n/a", "old", "5")], "7");
    cache.assume(object("n/a", "new", "10"));
    assert!(apply(&mut cache, deleted("n/a", "old", "9")).is_empty());
    assert_eq!(cached(&cache), pairs(&[("n/a", "10")]));
}

#[test]
fn a_deleted_object_does_not_come_back() {
    let mut cache = listed(vec![object("n/a", "1", "5")], "7");
    assert!(cache.assume_deleted(&key("n/a"), "other").is_none());
    assert!(cache.assume_deleted(&key("n/a"), "1").is_some());
    assert!(apply(&mut cache, WatchEvent::Applied(object("n/a", "1", "8"))).is_empty());
    assert!(cache.assume(object("n/a", "1", "8")).is_none());
    assert!(apply(&mut cache, deleted("n/a", "1", "9")).is_empty());
    assert!(cache.objects.is_empty());
    assert!(cache.tombstones.is_empty());

    let deltas = apply(&mut cache, WatchEvent::Applied(object("n/a", "2", "12")));
    assert_eq!(deltas, [("n/a".to_owned(), from_to("", "12"))]);
}

#[test]
fn an_answer_after_the_deletion_event_is_ignored() {
    let mut cache = listed(Vec::new(), "7");
    cache.apply(
        &WatchScope::Cluster,
        WatchEvent::Applied(object("n/a", "1", "10")),
    );
    cache.apply(&WatchScope::Cluster, deleted("n/a", "1", "11"));
    assert!(cache.assume(object("n/a", "1", "10")).is_none());
    assert!(cache.objects.is_empty());
}

#[test]
fn a_list_keeps_later_writes_and_drops_objects_deleted_before_it() {
    let mut cache = listed(Vec::new(), "7");
    cache.assume(object("n/before", "1", "8"));
    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    cache.assume(object("n/during", "2", "9"));
    cache.assume(object("n/after", "3", "12"));
    cache.apply(
        &WatchScope::Cluster,
        WatchEvent::Listed(object("n/listed", "4", "6")),
    );
    cache.apply(&WatchScope::Cluster, list_completed("10"));
    assert_eq!(
        cached(&cache),
        pairs(&[("n/after", "12"), ("n/listed", "6")])
    );
}

#[test]
fn a_list_does_not_undo_a_later_write() {
    let mut cache = listed(vec![object("n/a", "1", "5")], "7");
    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    cache.assume(object("n/a", "1", "12"));
    cache.apply(
        &WatchScope::Cluster,
        WatchEvent::Listed(object("n/a", "1", "5")),
    );
    cache.apply(&WatchScope::Cluster, list_completed("10"));
    assert_eq!(cached(&cache), pairs(&[("n/a", "12")]));
}

#[test]
fn an_undecodable_object_keeps_its_last_state() {
    let mut cache = listed(vec![object("n/a", "1", "5")], "7");
    let undecodable = |version: &str| WatchEvent::Undecodable {
        identity: identity("n/a", "1", version),
        error: "missing field `spec`".to_owned(),
    };
    let deltas = apply(&mut cache, undecodable("8"));
    assert_eq!(deltas, [("n/a".to_owned(), from_to("5", "5"))]);
    assert!(cache.undecodable.contains_key(&key("n/a")));

    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    cache.apply(&WatchScope::Cluster, undecodable("8"));
    assert!(apply(&mut cache, list_completed("9")).is_empty());
    assert_eq!(cache.objects.len(), 1);
    assert!(cache.undecodable.contains_key(&key("n/a")));

    cache.apply(
        &WatchScope::Cluster,
        WatchEvent::Applied(object("n/a", "1", "10")),
    );
    assert!(!cache.undecodable.contains_key(&key("n/a")));
}

#[test]
fn the_deletion_of_an_object_that_never_decoded_is_reported() {
    let mut cache = listed(Vec::new(), "7");
    let event = WatchEvent::Undecodable {
        identity: identity("n/a", "1", "8"),
        error: String::new(),
    };
    assert_eq!(
        apply(&mut cache, event),
        [("n/a".to_owned(), from_to("", ""))]
    );
    assert_eq!(
        apply(&mut cache, deleted("n/a", "1", "9")),
        [("n/a".to_owned(), from_to("", ""))]
    );
    assert!(!cache.undecodable.contains_key(&key("n/a")));
}

#[test]
fn the_index_follows_the_objects() {
    let index = |object: &ConfigMap| {
        let labels = object.metadata.labels.iter().flatten();
        labels.map(|(_, owner)| owner.clone()).collect()
    };
    let mut cache = Cache::indexed([WatchScope::Cluster], index);
    let names = |cache: &Cache<ConfigMap, String>, owner: &str| -> Vec<String> {
        let found = cache.by_index(&owner.to_owned());
        found.map(|(key, _)| key.to_string()).collect()
    };
    cache.apply(&WatchScope::Cluster, WatchEvent::ListStarted);
    for name in ["n/b", "n/a", "m/c"] {
        cache.apply(
            &WatchScope::Cluster,
            WatchEvent::Listed(owned(name, name, "5", "x")),
        );
    }
    cache.apply(&WatchScope::Cluster, list_completed("7"));
    assert_eq!(names(&cache, "x"), ["m/c", "n/a", "n/b"]);

    cache.apply(
        &WatchScope::Cluster,
        WatchEvent::Applied(owned("n/a", "n/a", "8", "y")),
    );
    cache.assume_deleted(&key("n/b"), "n/b");
    assert_eq!(names(&cache, "x"), ["m/c"]);
    assert_eq!(names(&cache, "y"), ["n/a"]);
    assert_eq!(cache.indexed.len(), 2);
}

#[test]
fn watches_of_several_namespaces_are_independent() {
    let mut cache = Cache::indexed(["m", "n"].map(WatchScope::namespace), |_: &ConfigMap| {
        Vec::<()>::new()
    });
    for namespace in ["m", "n"] {
        assert!(!cache.synced());
        let scope = WatchScope::namespace(namespace);
        cache.apply(&scope, WatchEvent::ListStarted);
        let name = format!("{namespace}/a");
        cache.apply(&scope, WatchEvent::Listed(object(&name, namespace, "5")));
        cache.apply(&scope, list_completed("7"));
    }
    assert!(cache.synced());

    cache.apply(
        &WatchScope::namespace("m"),
        WatchEvent::Applied(object("m/b", "3", "20")),
    );
    assert!(
        cache.assume(object("n/b", "4", "15")).is_some(),
        "watches of different namespaces are independent"
    );
    cache.apply(&WatchScope::namespace("m"), WatchEvent::ListStarted);
    let deltas: Vec<_> = cache
        .apply(&WatchScope::namespace("m"), list_completed("30"))
        .iter()
        .map(summary)
        .collect();
    assert_eq!(
        deltas,
        [
            ("m/a".to_owned(), from_to("5", "")),
            ("m/b".to_owned(), from_to("20", ""))
        ]
    );
    assert_eq!(cache.objects.len(), 2);
}

#[test]
fn a_cleared_cache_is_empty_and_waits_for_its_lists_again() {
    let mut cache = Cache::indexed(["m", "n"].map(WatchScope::namespace), |_: &ConfigMap| {
        vec![()]
    });
    for namespace in ["m", "n"] {
        let scope = WatchScope::namespace(namespace);
        cache.apply(&scope, WatchEvent::ListStarted);
        let name = format!("{namespace}/a");
        cache.apply(&scope, WatchEvent::Listed(object(&name, namespace, "5")));
        cache.apply(&scope, list_completed("7"));
    }
    cache.clear();
    assert!(!cache.synced());
    assert_eq!((cache.iter().count(), cache.by_index(&()).count()), (0, 0));
    for namespace in ["m", "n"] {
        cache.apply(&WatchScope::namespace(namespace), list_completed("9"));
    }
    assert!(cache.synced());
}
