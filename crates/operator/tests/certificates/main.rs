//! The certificate of the Machine operator's webhook: kept by the operator with exactly the rights of
//! config/rbac/webhook_role.yaml, on virtual time or, with `KUBECONFIG_E2E`, on a kube-apiserver; and what API servers do with webhooks that do not
//! answer as they should, over real TLS.
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
mod ground;
mod keeping;
#[path = "../stories/lib.rs"]
#[allow(dead_code, reason = "each suite needs a part of it")]
mod stories;

use stories::Suite;

const SUITE: Suite = Suite {
    account: (ground::NAMESPACE, "kubevirt-operator-controller-manager"),
    setup: || sandbox::Setup {
        nodes: 0,
        definitions: stories::own_definitions(),
        ..sandbox::Setup::seeded(1)
    },
    rights: &["rbac/service_account.yaml", "rbac/webhook_role.yaml"],
};
