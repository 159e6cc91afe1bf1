//! Holds objects against the schema of a custom resource, as the API server does.
//!
//! A [`Schema`] is compiled once from the `openAPIV3Schema` of a CustomResourceDefinition: its
//! structural rules (types, bounds, patterns, lists as sets and maps) and its CEL rules, with
//! transition rules when the old object is given. The metadata that all objects have is looked at
//! too. [`Schema::validate`] finds everything at once,
//! in the words of the API server.
//!
//! Two things differ from the API server, both so that a person sees more at once: unknown fields
//! are reported together with everything else, and a part of an object whose structure is wrong
//! holds back only the CEL rules that look at that part, not all of them.

mod cel;
mod metadata;
mod node;
mod path;
mod structural;
mod unknown;
mod violation;

use std::collections::BTreeSet;

pub use node::CompileError;
use node::Node;
use path::Path;
use serde_json::Value;
pub use unknown::closest;
pub use violation::{Problem, Violation};

/// The schema of one version of a custom resource.
#[derive(Debug)]
pub struct Schema {
    root: Node,
}

impl Schema {
    /// Compiles an `openAPIV3Schema`.
    pub fn compile(open_api_v3_schema: &Value) -> Result<Self, CompileError> {
        Ok(Self {
            root: Node::compile(open_api_v3_schema, &Path::root())?,
        })
    }

    /// Everything that is wrong with `object`. With `old`, also what may not change.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Violation> {
        let mut violations = Vec::new();
        unknown::find(&self.root, object, &mut violations);
        metadata::check(object, &mut violations);
        let structural = violations.len();
        structural::check(&self.root, object, &Path::root(), &mut violations);
        let blocked: BTreeSet<String> = violations[structural..]
            .iter()
            .filter(|violation| violation.problem.blocks_rules())
            .map(|violation| violation.path.clone())
            .collect();
        cel::check(&self.root, object, old, &blocked, &mut violations);
        violations
    }
}
