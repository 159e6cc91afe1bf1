use runtime::metrics::MAX_NAMES;

use super::*;

/// The samples of the operator's own metric `name`, in order.
fn samples(metrics: &Metrics, name: &str) -> Vec<String> {
    let name = format!("kubevirt_operator_{name}");
    let mut found: Vec<String> = metrics
        .expose()
        .lines()
        .filter(|line| line.starts_with(&name))
        .map(|line| line.replacen("kubevirt_operator_", "", 1))
        .collect();
    found.sort();
    found
}

fn machines<const N: usize>(counts: [(&str, &str, i64); N]) -> BTreeMap<(String, String), i64> {
    counts
        .into_iter()
        .map(|(phase, template, count)| ((phase.to_owned(), template.to_owned()), count))
        .collect()
}

#[test]
fn names_types_and_labels_are_those_of_the_specification() {
    let metrics = Metrics::new("1.2.3");
    metrics.set_machines(&machines([("Running", "small", 2)]));
    metrics.set_virtual_machines(&BTreeMap::from([("Running".to_owned(), 2)]));
    metrics.reconciled("Machine", "success", Duration::from_millis(3));
    metrics.error("Machine", "TemplateNotFound");
    metrics.storage_provisioned("fast", Duration::from_secs(7));
    metrics.network_error("vlan-7");
    metrics.api_request(
        "create",
        "virtualmachines",
        Some(201),
        Duration::from_millis(20),
    );
    metrics.api_request("list", "machines", None, Duration::from_secs(15));
    metrics.set_queue_depth(4);
    metrics.set_leader(true);

    let text = metrics.expose();
    let expected = [
        "# TYPE kubevirt_operator_machines_total gauge",
        "kubevirt_operator_machines_total{phase=\"Running\",template=\"small\"} 2",
        "# TYPE kubevirt_operator_reconciliation_duration_seconds histogram",
        "kubevirt_operator_reconciliation_duration_seconds_count{controller=\"Machine\"} 1",
        "kubevirt_operator_reconciliation_duration_seconds_bucket{le=\"0.0025\",controller=\"Machine\"} 0",
        "kubevirt_operator_reconciliation_duration_seconds_bucket{le=\"0.005\",controller=\"Machine\"} 1",
        "# HELP kubevirt_operator_reconciliation_errors_total Errors of reconciles by type.",
        "# TYPE kubevirt_operator_reconciliation_errors_total counter",
        "kubevirt_operator_reconciliation_errors_total{controller=\"Machine\",error_type=\"TemplateNotFound\"} 1",
        "# TYPE kubevirt_operator_virtual_machines_total gauge",
        "kubevirt_operator_virtual_machines_total{status=\"Running\"} 2",
        "# TYPE kubevirt_operator_storage_provisioning_duration_seconds histogram",
        "kubevirt_operator_storage_provisioning_duration_seconds_sum{storage_class=\"fast\"} 7.0",
        "# TYPE kubevirt_operator_network_configuration_errors_total counter",
        "kubevirt_operator_network_configuration_errors_total{network_name=\"vlan-7\"} 1",
        "# TYPE kubevirt_operator_reconciliations_total counter",
        "kubevirt_operator_reconciliations_total{controller=\"Machine\",result=\"success\"} 1",
        "# TYPE kubevirt_operator_api_requests_total counter",
        "kubevirt_operator_api_requests_total{verb=\"create\",resource=\"virtualmachines\",code=\"201\"} 1",
        "kubevirt_operator_api_requests_total{verb=\"list\",resource=\"machines\",code=\"<error>\"} 1",
        "# TYPE kubevirt_operator_api_request_duration_seconds histogram",
        "kubevirt_operator_api_request_duration_seconds_bucket{le=\"0.025\",verb=\"create\"} 1",
        "kubevirt_operator_queue_depth 4",
        "kubevirt_operator_leader 1",
        "kubevirt_operator_build_info{version=\"1.2.3\"} 1",
    ];
    for line in expected {
        assert!(
            text.lines().any(|found| found == line),
            "{line}\nin\n{text}"
        );
    }
    assert!(!text.contains("EOF"));
    assert!(!text.contains("_total_total"));
}

#[test]
fn series_of_deleted_machines_are_dropped() {
    let metrics = Metrics::new("1");
    metrics.set_machines(&machines([
        ("Creating", "small", 1),
        ("Running", "small", 5),
    ]));
    metrics.set_machines(&machines([("Running", "small", 6)]));
    assert_eq!(
        samples(&metrics, "machines_total"),
        ["machines_total{phase=\"Running\",template=\"small\"} 6"]
    );
    metrics.set_machines(&BTreeMap::new());
    assert!(samples(&metrics, "machines_total").is_empty());
}

#[test]
fn the_validity_of_a_certificate_is_exposed_while_it_exists() {
    let metrics = Metrics::new("1");
    let validity = Validity {
        not_before: 1,
        not_after: 9,
    };
    metrics.set_certificates(&[("certs".to_owned(), validity)].into());
    assert_eq!(
        samples(&metrics, "certificate_"),
        [
            "certificate_expiry_timestamp_seconds{secret=\"certs\"} 9",
            "certificate_not_before_timestamp_seconds{secret=\"certs\"} 1",
        ]
    );
    metrics.set_certificates(&BTreeMap::new());
    assert!(samples(&metrics, "certificate_").is_empty());
}

#[test]
fn templates_beyond_the_limit_share_a_series_until_there_is_room() {
    let metrics = Metrics::new("1");
    let mut counts: BTreeMap<_, _> = (0..MAX_NAMES + 50)
        .map(|n| (("Running".to_owned(), format!("class-{n:03}")), 2))
        .collect();
    metrics.set_machines(&counts);
    let found = samples(&metrics, "machines_total");
    assert_eq!(found.len(), MAX_NAMES + 1);
    let other = "machines_total{phase=\"Running\",template=\"other\"} 100".to_owned();
    assert!(found.contains(&other), "{found:?}");

    counts.retain(|(_, template), _| template.as_str() >= "class-050");
    metrics.set_machines(&counts);
    let found = samples(&metrics, "machines_total");
    assert_eq!(found.len(), MAX_NAMES);
    assert!(
        !found.iter().any(|line| line.contains("other")),
        "{found:?}"
    );
}

#[test]
fn names_that_users_choose_have_a_bounded_number_of_series() {
    let metrics = Metrics::new("1");
    for n in 0..MAX_NAMES + 50 {
        metrics.network_error(&format!("net-{n}"));
        metrics.storage_provisioned(&format!("class-{n}"), Duration::from_secs(1));
        metrics.api_request("get", &format!("resource-{n}"), Some(200), Duration::ZERO);
    }
    assert_eq!(
        samples(&metrics, "network_configuration_errors_total").len(),
        MAX_NAMES + 1
    );
    assert_eq!(samples(&metrics, "api_requests_total").len(), MAX_NAMES + 1);
    assert_eq!(
        samples(&metrics, "storage_provisioning_duration_seconds_count").len(),
        MAX_NAMES + 1
    );
    assert!(
        samples(&metrics, "network_configuration_errors_total")
            .contains(&"network_configuration_errors_total{network_name=\"other\"} 50".to_owned())
    );
}

#[test]
fn names_cannot_break_the_format() {
    let metrics = Metrics::new("1");
    metrics.network_error("a\"b\\c\nd");
    assert_eq!(
        samples(&metrics, "network_configuration_errors_total"),
        ["network_configuration_errors_total{network_name=\"a\\\"b\\\\c\\nd\"} 1"]
    );
}

#[test]
fn storage_classes_beyond_the_limit_share_the_oldest_claim() {
    let metrics = Metrics::new("1");
    let pending = (0..MAX_NAMES + 3).map(|n| {
        let since = 1_000 - i64::try_from(n).unwrap();
        (format!("class-{n:03}"), PendingClaims { count: 2, since })
    });
    metrics.set_pending_claims(&pending.collect());
    let other = |name: &str| {
        let mut found = samples(&metrics, name);
        found.retain(|line| line.contains("other"));
        found
    };
    assert_eq!(
        other("claims_pending"),
        ["claims_pending{storage_class=\"other\"} 6"]
    );
    assert_eq!(
        other("claim_pending_oldest"),
        ["claim_pending_oldest_timestamp_seconds{storage_class=\"other\"} 898"]
    );
    metrics.set_pending_claims(&BTreeMap::new());
    assert!(samples(&metrics, "claim").is_empty());
}

#[test]
fn the_current_status_of_the_kubevirt_resource_is_exposed() {
    let metrics = InstallationMetrics::new("1", "");
    let shown = || {
        let text = metrics.expose();
        let lines = text.lines();
        let lines = lines.filter(|line| line.starts_with("kubevirt_virt_operator_kubevirt_"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut installation = Installation {
        phase: "Deploying".to_owned(),
        target_version: "v1.9.0".to_owned(),
        observed_version: String::new(),
        conditions: BTreeMap::from([("Available".to_owned(), false)]),
    };
    metrics.set_installation(Some(&installation));
    installation.phase = "Deployed".to_owned();
    installation.observed_version = "v1.9.0".to_owned();
    installation.conditions = BTreeMap::from([("Available".to_owned(), true)]);
    metrics.set_installation(Some(&installation));
    assert_eq!(
        shown(),
        [
            "kubevirt_virt_operator_kubevirt_condition{condition=\"Available\"} 1",
            "kubevirt_virt_operator_kubevirt_info{phase=\"Deployed\",\
             target_version=\"v1.9.0\",observed_version=\"v1.9.0\"} 1",
        ]
    );
    metrics.set_installation(None);
    assert!(shown().is_empty());
}
