//! What queries ask for, and what there is to ask for.

use std::collections::BTreeSet;

use crate::{
    exposed,
    files::{asked_in_runbooks, panels, rules, text},
};

/// Told by the API server.
const OF_OTHERS: [&str; 2] = [
    "apiserver_admission_webhook_fail_open_count",
    "apiserver_admission_webhook_rejection_count",
];

/// The names of all series that the binaries show.
fn shown() -> BTreeSet<String> {
    let exposed = [
        exposed::machine_operator().expose(),
        exposed::virt_operator().expose(),
    ];
    let lines = exposed.iter().flat_map(|exposed| exposed.lines());
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(str::to_owned)
        .collect()
}

/// The names of series in a query: whatever looks like one of a metric or of a recording rule.
pub(crate) fn names(query: &str) -> BTreeSet<String> {
    // What stands between quotes is a value.
    let outside = query.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    let words = outside.split(|letter| !is_part(letter));
    let prefixes = ["kubevirt_", "kubevirt:", "process_", "apiserver_"];
    words
        .filter(|word| *word == "up" || prefixes.iter().any(|it| word.starts_with(it)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn names_are_found_and_values_are_not() {
    let query =
        r#"sum by (le) (rate(kubevirt_a_bucket{x="kubevirt_b"}[5m])) > kubevirt:c:sum and up"#;
    assert_eq!(
        names(query),
        ["kubevirt:c:sum", "kubevirt_a_bucket", "up"]
            .map(str::to_owned)
            .into()
    );
}

#[test]
fn rules_dashboard_and_runbooks_ask_for_what_the_operators_show() {
    let mut known = shown();
    known.extend(OF_OTHERS.map(str::to_owned));
    let rules = rules();
    let recorded = rules.iter().filter_map(|rule| rule["record"].as_str());
    known.extend(recorded.map(str::to_owned));
    let of_rules = rules.iter().map(|rule| text(&rule["expr"]).to_owned());
    let of_panels = panels().into_iter().flat_map(|(_, queries)| queries);
    let queries = of_rules.chain(of_panels).chain(asked_in_runbooks());
    for query in queries {
        let names = names(&query);
        assert!(!names.is_empty(), "asks for nothing: {query}");
        let unknown: Vec<_> = names.difference(&known).collect();
        assert!(unknown.is_empty(), "{unknown:?} in {query}");
    }
}
