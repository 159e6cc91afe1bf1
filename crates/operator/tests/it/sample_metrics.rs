//! Metrics of both operators with a sample of every series.

use std::time::Duration;

use kubevirt_operator::metrics::{Installation, InstallationMetrics, Metrics, PendingClaims};
use runtime::metrics::Validity;

const CERTIFICATE: Validity = Validity {
    not_before: 1,
    not_after: 4_000_000_000,
};

pub(crate) fn machine_operator() -> Metrics {
    let metrics = Metrics::new("1");
    metrics.reconciled("Machine", "written", Duration::ZERO);
    metrics.slow_reconcile("Machine");
    metrics.error("Machine", "ApiError");
    metrics.set_machines(&[(("Running".into(), "small".into()), 1)].into());
    metrics.set_virtual_machines(&[("Running".into(), 1)].into());
    metrics.storage_provisioned("standard", Duration::ZERO);
    metrics.network_error("lan");
    metrics.api_request("get", "machines", Some(200), Duration::ZERO);
    metrics.admission("machines", "allowed");
    metrics.set_certificates(&[("kubevirt-operator-webhook-certs".into(), CERTIFICATE)].into());
    metrics.machine_started(Duration::ZERO);
    metrics.set_oldest_in_phase(&[("Creating", 1)].into());
    metrics.set_oldest_waiting(&[("storage", 1)].into());
    let pending = PendingClaims { count: 1, since: 1 };
    metrics.set_pending_claims(&[("standard".into(), pending)].into());
    metrics.set_orphaned_disks(&[("shop".into(), 1)].into());
    metrics.set_unserved_fields("machines.vitistack.io", 1);
    let east = metrics.of_cluster("east");
    east.set_cluster_reachable(Some(true));
    east.set_orphaned_objects(&[("VirtualMachine", 1)].into());
    metrics
}

pub(crate) fn virt_operator() -> InstallationMetrics {
    let metrics = InstallationMetrics::new("1", "host");
    metrics.set_leader(true);
    metrics.set_ready(true);
    metrics.api_request("get", "kubevirts", Some(200), Duration::ZERO);
    metrics.set_step(Some("ApplyingDefinitions"));
    metrics.set_certificates(&[("kubevirt-ca".into(), CERTIFICATE)].into());
    metrics.set_installation(Some(&Installation {
        phase: "Deployed".into(),
        target_version: "v1.9.0".into(),
        observed_version: "v1.9.0".into(),
        conditions: [("Available".into(), true)].into(),
    }));
    metrics
}
