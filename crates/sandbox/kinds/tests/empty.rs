//! Comparison of empty objects with those of a real API server.
//!
//! `empty.jsonl` has, for every kind, the object of the bookmark that kube-apiserver sends at the
//! end of the initial events of a watch, without metadata.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;

#[test]
fn empty_objects_match_bookmarks() {
    let mut count = 0;
    for line in include_str!("empty.jsonl").lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let kind = kinds::all()
            .iter()
            .find(|kind| {
                recorded["kind"] == kind.kind && recorded["apiVersion"] == kind.api_version()
            })
            .unwrap_or_else(|| panic!("no kind for {line}"));
        assert_eq!(kinds::empty(kind), recorded);
        count += 1;
    }
    let watched = kinds::all()
        .iter()
        .filter(|kind| kind.verbs.contains(&"watch"));
    assert_eq!(count, watched.count());
}
