//! Our own schemas, for holding documents against them without a cluster.

use std::{collections::BTreeMap, sync::LazyLock};

use schema::{Schema, Violation};
use serde_json::Value;

use crate::manifests::Kind;

static SCHEMAS: LazyLock<BTreeMap<String, Schema>> = LazyLock::new(|| {
    #[expect(
        clippy::expect_used,
        reason = "our own definitions: tests compile them"
    )]
    let compile = |schema: &Value| Schema::compile(schema).expect("our own schemas compile");
    let schemas = api::crds().into_iter().map(|crd| {
        let crd = serde_json::json!(crd);
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let schema = compile(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        (kind.to_owned(), schema)
    });
    schemas.collect()
});

/// What the API server would refuse in a document.
pub fn violations(kind: Kind, value: &Value) -> Vec<Violation> {
    let name = match kind {
        Kind::Machine => "Machine",
        Kind::MachineClass => "MachineClass",
        Kind::NetworkConfiguration => "NetworkConfiguration",
        Kind::StorageClass | Kind::Secret => return Vec::new(),
    };
    SCHEMAS[name].validate(value, None)
}
