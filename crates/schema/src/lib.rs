//! Validation of objects against the structural schema of a custom resource, with the texts of
//! kube-apiserver.
//!
//! A [`Schema`] is compiled once from the `openAPIV3Schema` of a CustomResourceDefinition: types,
//! bounds, patterns, formats, combined schemas, list types, embedded resources and CEL rules.
//!
//! An API server runs, in this order:
//!
//! 1. [`Schema::decode`]: refuses undecodable metadata; prunes and reports unknown fields.
//! 2. [`Schema::default`]: sets defaults.
//! 3. [`metadata::validate_create`] or [`metadata::validate_update`], for all kinds.
//! 4. [`Schema::admit`] or, for the status subresource, [`Schema::admit_status`]: validates, with
//!    transition rules and ratcheting if there is an old object.
//!
//! [`Schema::validate`] is for documents that people write: it reports everything at once,
//! including unknown fields, and a structural error blocks only the CEL rules that use the invalid
//! part.
//!
//! [`crd`] validates CustomResourceDefinitions themselves.
//!
//! No clock, random source or I/O. The cost of CEL rules is bounded.

pub mod crd;
mod defaults;
mod embedded;
mod go_format;
mod list_types;
pub mod metadata;
pub mod names;
mod node;
mod path;
mod prune;
mod ratcheting;
mod rules;
mod structural;
mod unknown_fields;
mod violation;

use std::collections::BTreeSet;

pub use node::CompileError;
use node::Node;
use path::Path;
use serde_json::Value;
pub use unknown_fields::closest;
pub use violation::{Problem, Violation};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    pub violations: Vec<Violation>,
    /// Violations tolerated by ratcheting, reported as warnings.
    pub tolerated: Vec<Violation>,
}

/// What becomes of a null for a field that is not nullable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// It counts as absent.
    Dropped,
    /// It stays, and is an error of validation unless it is replaced by a default.
    Kept,
}

#[derive(Debug)]
pub struct Schema {
    root: Node,
}

impl Schema {
    pub fn compile(open_api_v3_schema: &Value) -> Result<Self, CompileError> {
        Ok(Self {
            root: Node::compile(open_api_v3_schema, &Path::Root)?,
        })
    }

    /// All violations of a document. With `old`, also of transition rules.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Violation> {
        let mut violations = Vec::new();
        unknown_fields::find(&self.root, object, &mut violations);
        metadata::document::check(object, &mut violations);
        let structural = violations.len();
        // Nulls count as absent; metadata was validated above.
        let mut object = object.clone();
        prune::drop_nulls(&self.root, &mut object);
        structural::check(&self.root, &object, None, &Path::Root, &mut violations);
        embedded::check(&self.root, &object, &Path::Root, &mut violations);
        list_types::check(&self.root, &object, &Path::Root, &mut violations);
        let blocked: BTreeSet<String> = violations
            .iter()
            .skip(structural)
            .filter(|violation| violation.problem.blocks_rules())
            .map(|violation| violation.path.clone())
            .collect();
        let root = &Path::Root;
        rules::check(&self.root, &object, old, &blocked, root, &mut violations);
        violations
    }

    /// Prunes an object. Returns the paths of unknown fields as `strict decoding error: unknown
    /// field "…"` names them; the error says why the object cannot be decoded.
    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        self.decode_with(object, Nulls::Dropped)
    }

    /// [`Self::decode`] with a choice for nulls.
    pub fn decode_with(&self, object: &mut Value, nulls: Nulls) -> Result<Vec<String>, String> {
        if let Some(error) = metadata::type_error(object) {
            return Err(error);
        }
        if let Some(error) = embedded::decode_error(&self.root, object, &Path::Root) {
            return Err(error);
        }
        Ok(prune::prune(&self.root, object, nulls))
    }

    /// Removes unknown fields and disallowed nulls. Returns the paths of the unknown fields in the
    /// order of kube-apiserver.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object, Nulls::Dropped)
    }

    pub fn default(&self, object: &mut Value) {
        defaults::fill(&self.root, object);
    }

    /// Validates a pruned and defaulted object on create or, with `old`, on update. `found` are the
    /// violations of its metadata: they come first and may block CEL rules.
    pub fn admit(&self, new: &Value, old: Option<&Value>, mut found: Vec<Violation>) -> Findings {
        structural::check(&self.root, new, old, &Path::Root, &mut found);
        embedded::check(&self.root, new, &Path::Root, &mut found);
        self.check_lists(new, old, &mut found);
        self.check_rules(new, old, found)
    }

    /// Validates a status update. The rest of the object equals `old`. `found` as for
    /// [`Self::admit`].
    pub fn admit_status(&self, new: &Value, old: &Value, mut found: Vec<Violation>) -> Findings {
        if let (Some(schema), Some(status)) = (self.root.field("status"), new.get("status")) {
            structural::check_part(schema, status, old.get("status"), "status", &mut found);
        }
        self.check_lists(new, Some(old), &mut found);
        self.check_rules(new, Some(old), found)
    }

    /// Duplicate items are reported only if `old` had none.
    fn check_lists(&self, new: &Value, old: Option<&Value>, found: &mut Vec<Violation>) {
        let mut repeated = Vec::new();
        list_types::check(&self.root, new, &Path::Root, &mut repeated);
        if let Some(old) = old.filter(|_| !repeated.is_empty()) {
            let mut before = Vec::new();
            list_types::check(&self.root, old, &Path::Root, &mut before);
            if !before.is_empty() {
                return;
            }
        }
        found.append(&mut repeated);
    }

    fn check_rules(&self, new: &Value, old: Option<&Value>, mut found: Vec<Violation>) -> Findings {
        let mut tolerated = Vec::new();
        let is_blocked = found
            .iter()
            .any(|violation| violation.problem.blocks_rules());
        if !is_blocked {
            let none = BTreeSet::new();
            tolerated = rules::check(&self.root, new, old, &none, &Path::Root, &mut found);
        } else if self.root.subtree.rules {
            found.push(Violation::invalid(
                "",
                Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            ));
        }
        // kube-apiserver prints an empty path as `<nil>`.
        for violation in found
            .iter_mut()
            .filter(|violation| violation.path.is_empty())
        {
            "<nil>".clone_into(&mut violation.path);
        }
        Findings {
            violations: found,
            tolerated,
        }
    }
}
