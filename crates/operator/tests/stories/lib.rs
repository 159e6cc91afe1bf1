//! Clusters that stories run on, shared by all suites: each on a sandbox of its own and on paused
//! time, or on the cluster of `KUBECONFIG_E2E` in real time.

#[path = "../actors/empty_texts.rs"]
mod empty_texts;
pub(crate) mod ground;
pub(crate) mod inspect;
pub(crate) mod line;
pub(crate) mod objects;
mod paused;
mod real;
mod server;
pub(crate) mod services;
pub(crate) mod skipped;

use sandbox::Setup;

/// What all stories of a suite need of their cluster.
pub(crate) struct Suite {
    /// Namespace and name of the operator's service account.
    pub(crate) account: (&'static str, &'static str),
    /// How a cluster is set up unless a story changes it.
    pub(crate) setup: fn() -> Setup,
    /// Files of config/ that grant the operator its rights.
    pub(crate) rights: &'static [&'static str],
}

/// The definitions of our own resources.
pub(crate) fn own_definitions() -> Vec<serde_json::Value> {
    let definitions = api::crds();
    let definitions = definitions.iter();
    definitions
        .map(|definition| serde_json::to_value(definition).unwrap())
        .collect()
}
