//! Existence of every test that docs/reliability.md names.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads the document that it is about"
)]

use std::{fs, path::Path};

#[test]
fn every_test_that_the_document_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = fs::read_to_string(root.join("docs/reliability.md")).unwrap();
    let quoted = document.split('`').skip(1).step_by(2);
    let named: Vec<_> = quoted.filter_map(|text| text.split_once(".rs::")).collect();
    assert!(named.len() > 10, "{named:?}");
    for (file, test) in named {
        let path = root.join(format!("{file}.rs"));
        let code = fs::read_to_string(&path).unwrap_or_default();
        let is_there = code.contains(&format!("fn {test}("));
        assert!(is_there, "no test {test} in {}", path.display());
    }
}
