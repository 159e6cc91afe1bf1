//! What queries ask for, and what there is to ask for.

use std::{collections::BTreeSet, time::Duration};

use runtime::metrics::{Installation, InstallationMetrics, Metrics, Pending};

use crate::files::{panels, rules, text};

/// Told by the API server.
const OF_OTHERS: [&str; 1] = ["apiserver_admission_webhook_fail_open_count"];

/// What the Machine operator shows when there is something of everything.
fn machine_operator() -> String {
    let metrics = Metrics::new("1");
    metrics.reconciled("Machine", "written", Duration::ZERO);
    metrics.error("Machine", "ApiError");
    metrics.set_machines(&[(("Running".into(), "small".into()), 1)].into());
    metrics.set_virtual_machines(&[("Running".into(), 1)].into());
    metrics.storage_provisioned("standard", Duration::ZERO);
    metrics.network_error("lan");
    metrics.api_request("get", "machines", Some(200), Duration::ZERO);
    metrics.machine_started(Duration::ZERO);
    metrics.set_oldest_in_phase(&[("Creating", 1)].into());
    metrics.set_oldest_waiting(&[("storage", 1)].into());
    let pending = Pending {
        claims: 1,
        since: 1,
    };
    metrics.admission("machines", "allowed");
    metrics.set_certificates(&[("kubevirt-operator-webhook-certs".into(), 1)].into());
    metrics.set_pending_claims(&[("standard".into(), pending)].into());
    metrics.admission("machines", "allowed");
    metrics.set_certificates(&[("kubevirt-operator-webhook-ca".into(), 1)].into());
    metrics.expose()
}

/// What the KubeVirt operator counts when there is something of everything.
pub(crate) fn virt_operator() -> InstallationMetrics {
    let metrics = InstallationMetrics::new("1", "host");
    metrics.set_leader(true);
    metrics.set_ready(true);
    metrics.api_request("get", "kubevirts", Some(200), Duration::ZERO);
    metrics.set_step(Some("ApplyingDefinitions"));
    metrics.set_certificates(&[("kubevirt-ca".into(), 4_000_000_000)].into());
    metrics.set_installation(Some(&Installation {
        phase: "Deployed".into(),
        target_version: "v1.9.0".into(),
        observed_version: "v1.9.0".into(),
        conditions: [("Available".into(), true)].into(),
    }));
    metrics
}

/// The names of all series that the binaries show.
fn shown() -> BTreeSet<String> {
    let exposed = [machine_operator(), virt_operator().expose()];
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
fn rules_and_dashboard_ask_for_what_the_operators_show() {
    let mut known = shown();
    known.extend(OF_OTHERS.map(str::to_owned));
    let rules = rules();
    let recorded = rules.iter().filter_map(|rule| rule["record"].as_str());
    known.extend(recorded.map(str::to_owned));
    let of_rules = rules.iter().map(|rule| text(&rule["expr"]).to_owned());
    let of_panels = panels().into_iter().flat_map(|(_, queries)| queries);
    for query in of_rules.chain(of_panels) {
        let names = names(&query);
        assert!(!names.is_empty(), "asks for nothing: {query}");
        let unknown: Vec<_> = names.difference(&known).collect();
        assert!(unknown.is_empty(), "{unknown:?} in {query}");
    }
}
