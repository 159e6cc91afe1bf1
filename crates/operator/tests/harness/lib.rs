//! Test harness that all suites of scenarios share. A scenario runs on a sandbox of its own in virtual
//! time, or on the cluster of `KUBECONFIG_E2E` in real time.

pub(crate) mod cluster;
pub(crate) mod fault_injection;
#[path = "../actors/null_strings.rs"]
mod null_strings;
pub(crate) mod objects;
mod real_cluster;
pub(crate) mod request_checks;
pub(crate) mod runner;
mod server;
pub(crate) mod services;
pub(crate) mod skipped;
pub(crate) mod transcript;
mod virtual_time;

use sandbox::Setup;

/// Cluster of all scenarios of a suite.
pub(crate) struct Suite {
    /// Namespace and name of the operator's ServiceAccount.
    pub(crate) account: (&'static str, &'static str),
    /// Setup that a scenario may change.
    pub(crate) setup: fn() -> Setup,
    /// Files of config/ with the operator's RBAC objects.
    pub(crate) rights: &'static [&'static str],
}

/// CustomResourceDefinitions of this project.
pub(crate) fn own_definitions() -> Vec<serde_json::Value> {
    let definitions = api::crds();
    let definitions = definitions.iter();
    definitions
        .map(|definition| serde_json::to_value(definition).unwrap())
        .collect()
}
