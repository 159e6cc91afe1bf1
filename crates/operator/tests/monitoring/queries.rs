//! Metrics that queries refer to, and metrics that exist.

use std::collections::BTreeSet;

use crate::{
    files::{panels, rules, runbook_queries, text},
    sample_metrics,
};

/// Metrics of the API server.
const EXTERNAL_METRICS: [&str; 2] = [
    "apiserver_admission_webhook_fail_open_count",
    "apiserver_admission_webhook_rejection_count",
];

/// Names of all series of both operators.
fn exposed_names() -> BTreeSet<String> {
    let exposed = [
        sample_metrics::machine_operator().expose(),
        sample_metrics::virt_operator().expose(),
    ];
    let lines = exposed.iter().flat_map(|exposed| exposed.lines());
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(str::to_owned)
        .collect()
}

/// Names of series in a query: whatever has the form of a metric or recording rule.
pub(crate) fn names(query: &str) -> BTreeSet<String> {
    // Texts in quotes are values.
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
fn metric_names_are_extracted_from_queries() {
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
fn rules_dashboard_and_runbooks_query_existing_metrics() {
    let mut known = exposed_names();
    known.extend(EXTERNAL_METRICS.map(str::to_owned));
    let rules = rules();
    let recorded = rules.iter().filter_map(|rule| rule["record"].as_str());
    known.extend(recorded.map(str::to_owned));
    let of_rules = rules.iter().map(|rule| text(&rule["expr"]).to_owned());
    let of_panels = panels().into_iter().flat_map(|(_, queries)| queries);
    let queries = of_rules.chain(of_panels).chain(runbook_queries());
    for query in queries {
        let names = names(&query);
        assert!(!names.is_empty(), "asks for nothing: {query}");
        let unknown: Vec<_> = names.difference(&known).collect();
        assert!(unknown.is_empty(), "{unknown:?} in {query}");
    }
}
