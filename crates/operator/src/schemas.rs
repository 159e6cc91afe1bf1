//! Schemas of vitistack.io, for validation without a cluster.

use std::{collections::BTreeMap, sync::LazyLock};

use schema::{Schema, Violation};
use serde_json::Value;

use crate::manifests::Kind;

static SCHEMAS: LazyLock<BTreeMap<String, Schema>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "tests compile the same schemas")]
    let compile = |schema: &Value| Schema::compile(schema).expect("generated schemas compile");
    let schemas = api::crds().into_iter().map(|crd| {
        let crd = serde_json::json!(crd);
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let schema = compile(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        (kind.to_owned(), schema)
    });
    schemas.collect()
});

/// Schema violations that the API server would refuse.
pub fn violations(kind: Kind, value: &Value) -> Vec<Violation> {
    let name = match kind {
        Kind::Machine => "Machine",
        Kind::MachineClass => "MachineClass",
        Kind::NetworkConfiguration => "NetworkConfiguration",
        Kind::StorageClass | Kind::Secret => return Vec::new(),
    };
    SCHEMAS[name].validate(value, None)
}
