//! Scenarios of the Machine operator's webhook certificate. The operator runs with exactly the rights of
//! config/rbac/webhook_role.yaml, in virtual time or, with `KUBECONFIG_E2E`, on a kube-apiserver.
//! `failures` tests over real TLS how API servers treat failing webhooks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod denied;
mod external;
mod failures;
mod foreign;
#[path = "../harness/lib.rs"]
#[allow(dead_code, reason = "each suite needs a part of it")]
mod harness;
mod lifecycle;
mod scenario;

use harness::Suite;

const SUITE: Suite = Suite {
    account: (scenario::NAMESPACE, "kubevirt-operator-controller-manager"),
    setup: || sandbox::Setup {
        nodes: 0,
        definitions: harness::own_definitions(),
        ..sandbox::Setup::seeded(1)
    },
    rights: &["rbac/service_account.yaml", "rbac/webhook_role.yaml"],
};
