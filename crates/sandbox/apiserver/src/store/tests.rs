//! Store and journal.

use serde_json::json;

use super::*;

fn table() -> TableId {
    TableId::new("", "configmaps")
}

fn id(name: &str) -> ObjectId {
    ObjectId {
        table: table(),
        key: format!("default/{name}").into(),
    }
}

fn object(name: &str, value: u32) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "data": {"v": value.to_string()}})
}

fn put(store: &Store, name: &str, value: u32) -> u64 {
    let precondition = store
        .get(&table(), &format!("default/{name}"))
        .map_or(Precondition::Absent, |stored| {
            Precondition::Revision(stored.revision)
        });
    store
        .commit(&id(name), precondition, Write::Put(object(name, value)))
        .unwrap()
        .revision
}

fn remove(store: &Store, name: &str) {
    let stored = store.get(&table(), &format!("default/{name}")).unwrap();
    let precondition = Precondition::Revision(stored.revision);
    store
        .commit(&id(name), precondition, Write::Remove(stored.value()))
        .unwrap();
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot
        .objects
        .iter()
        .map(|stored| format!("{}={}", stored.name(), stored.value()["data"]["v"]))
        .collect()
}

#[test]
fn failed_preconditions_change_nothing() {
    let store = Store::new(10);
    let first = put(&store, "a", 1);
    let refused = store.commit(
        &id("a"),
        Precondition::Revision(first - 1),
        Write::Put(object("a", 2)),
    );
    assert_eq!(refused.unwrap_err(), PreconditionFailed { exists: true });
    let refused = store.commit(&id("a"), Precondition::Absent, Write::Put(object("a", 2)));
    assert_eq!(refused.unwrap_err(), PreconditionFailed { exists: true });
    assert_eq!(store.revision(), first);
}

#[test]
fn lists_at_an_older_revision_are_consistent() {
    let store = Store::new(100);
    put(&store, "a", 1);
    let then = put(&store, "b", 1);
    put(&store, "a", 2);
    put(&store, "c", 1);
    remove(&store, "b");
    put(&store, "b", 9);
    let snapshot = store.list_at(&table(), "default/", then).unwrap();
    assert_eq!(names(&snapshot), [r#"a="1""#, r#"b="1""#]);
    let now = store.list(&table(), "default/");
    assert_eq!(names(&now), [r#"a="2""#, r#"b="9""#, r#"c="1""#]);
}

#[test]
fn old_events_are_dropped_and_older_revisions_expire() {
    let store = Store::new(3);
    let first = put(&store, "a", 0);
    for value in 1..=3 {
        put(&store, "a", value);
    }
    let after = |limit| store.events_after(&table(), first, limit);
    let news = after(10).unwrap();
    assert_eq!((news.events.len(), news.revision), (3, first + 3));
    let news = after(2).unwrap();
    assert_eq!((news.events.len(), news.revision), (2, first + 2));
    put(&store, "a", 4);
    assert_eq!(
        after(10).unwrap_err(),
        RevisionUnavailable::TooOld(first + 1)
    );
    assert!(store.list_at(&table(), "", first).is_err());
}

#[test]
fn children_are_found_by_the_uid_of_their_owner() {
    let store = Store::new(10);
    let mut child = object("child", 1);
    child["metadata"]["ownerReferences"] = json!([{"uid": "parent"}]);
    store
        .commit(&id("child"), Precondition::Absent, Write::Put(child))
        .unwrap();
    assert_eq!(store.children("parent"), [id("child")]);
    remove(&store, "child");
    assert!(store.children("parent").is_empty());
}

#[test]
fn journal_restores_objects_and_ignores_a_truncated_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.jsonl");
    let store = Store::new(10);
    put(&store, "before", 1);
    store.journal_to(Journal::begin(&path, &store.lines()).unwrap());
    put(&store, "a", 1);
    put(&store, "b", 2);
    remove(&store, "b");
    store.close_journal().unwrap();
    let mut text = std::fs::read(&path).unwrap();
    text.extend_from_slice(br#"{"group":"","resource":"conf"#);
    std::fs::write(&path, text).unwrap();

    let again = Store::new(10);
    again.restore(Journal::read(&path).unwrap());
    assert_eq!(
        names(&again.list(&table(), "")),
        [r#"a="1""#, r#"before="1""#]
    );
    assert_eq!(again.revision(), store.revision());
}
