//! Runner of scenarios: on the sandbox in virtual time, or on a real cluster in real time.

use std::future::Future;

use super::{real_cluster, skipped::skip, virtual_time};

/// Requirement of a scenario beyond an API server with the actors beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A garbage collector and a namespace controller.
    Controllers,
    /// An API server that reaches the Services of the operator and of virt-api.
    Services,
    /// CEL in CustomResourceDefinitions and webhooks: Kubernetes 1.30.
    Cel,
    /// Kubernetes 1.21: 1.20 has no policy/v1, and some scenarios fail there for unknown reasons.
    CurrentApis,
}

impl Need {
    /// Why a scenario is skipped on a cluster that does not meet this need.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Controllers => "no kube-controller-manager runs beside this API server",
            Self::Services => {
                "Services of this cluster have no address on this machine, or it is older than Kubernetes 1.21"
            }
            Self::Cel => "this API server knows no CEL rules: Kubernetes 1.30 does",
            Self::CurrentApis => "this API server is older than Kubernetes 1.21",
        }
    }
}

/// Runs a scenario; on a real cluster, in parallel with others.
pub(crate) fn run_scenario(scenario: impl Future<Output = ()>) {
    run_scenario_with(&[], scenario);
}

/// Runs a scenario that needs something; on a real cluster, in parallel with others.
pub(crate) fn run_scenario_with(needs: &[Need], scenario: impl Future<Output = ()>) {
    if !real_cluster::is_requested() {
        virtual_time::run(scenario);
    } else if let Err(need) = real_cluster::run_shared(needs, scenario) {
        skip(need.reason());
    }
}

/// Runs a scenario on a cluster of its own: it may use another [`sandbox::Setup`] and change
/// cluster-scoped objects.
pub(crate) fn run_scenario_alone(needs: &[Need], scenario: impl Future<Output = ()>) {
    if !real_cluster::is_requested() {
        virtual_time::run(scenario);
    } else if let Err(need) = real_cluster::run_alone(needs, scenario) {
        skip(need.reason());
    }
}

/// Runs a scenario that works in the sandbox only, for the given reason.
pub(crate) fn run_scenario_in_sandbox(reason: &str, scenario: impl Future<Output = ()>) {
    if real_cluster::is_requested() {
        skip(reason);
    } else {
        virtual_time::run(scenario);
    }
}

/// Runs a scenario that needs a garbage collector and a namespace controller.
pub(crate) fn run_scenario_with_controllers(scenario: impl Future<Output = ()>) {
    run_scenario_with(&[Need::Controllers], scenario);
}
