//! Holds objects against the schema of a custom resource, as the API server does.
//!
//! A [`Schema`] is compiled once from the `openAPIV3Schema` of a CustomResourceDefinition: its
//! structural rules (types, bounds, patterns, formats, combined schemas, lists as sets and maps,
//! embedded resources) and its CEL rules.
//!
//! An API server takes an object through these, in this order:
//!
//! 1. [`Schema::decode`]: metadata that cannot be read is refused; fields that the schema does not
//!    know are removed and named.
//! 2. [`Schema::default`]: what is absent gets its default.
//! 3. [`metadata::validate_create`] or [`metadata::validate_update`], for objects of all kinds.
//! 4. [`Schema::admit`] or, for the status subresource, [`Schema::admit_status`]: everything that
//!    the schema does not allow, with transition rules and ratcheting when there is an old object.
//!
//! [`Schema::validate`] is for documents and people instead: it finds everything at once. Unknown
//! fields are reported together with the rest, and a part of an object whose structure is wrong
//! holds back only the CEL rules that look at that part, not all of them.
//!
//! [`crd`] holds CustomResourceDefinitions themselves against the rules that there are for them.
//!
//! Nothing here has a clock, a random source or I/O. The time that an object's rules may take is
//! bounded, by a count of what they do.

mod cel;
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

/// What the API server finds in an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// What is wrong.
    pub violations: Vec<Violation>,
    /// What breaks a rule and is let pass with a warning, because the object had it before.
    pub tolerated: Vec<Violation>,
}

/// The schema of one version of a custom resource.
#[derive(Debug)]
pub struct Schema {
    root: Node,
}

impl Schema {
    /// Compiles an `openAPIV3Schema`.
    pub fn compile(open_api_v3_schema: &Value) -> Result<Self, CompileError> {
        Ok(Self {
            root: Node::compile(open_api_v3_schema, &Path::Root)?,
        })
    }

    /// Everything that is wrong with a document. With `old`, also what may not change.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Violation> {
        let mut violations = Vec::new();
        unknown_fields::find(&self.root, object, &mut violations);
        metadata::document::check(object, &mut violations);
        let structural = violations.len();
        // Nulls count as absent; metadata was looked at.
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
        cel::check(&self.root, &object, old, &blocked, root, &mut violations);
        violations
    }

    /// Brings an object that was read into the form that is kept: the places of fields that were
    /// removed, as `strict decoding error: unknown field "…"` names them, or why it cannot be read.
    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        if let Some(error) = metadata::type_error(object) {
            return Err(error);
        }
        if let Some(error) = embedded::decode_error(&self.root, object, &Path::Root) {
            return Err(error);
        }
        Ok(self.prune(object))
    }

    /// Removes fields that the schema does not know, and nulls where there may be none, and gives
    /// the places of the unknown fields, in the API server's order.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Fills in what the object has not, where the schema has a default for it.
    pub fn default(&self, object: &mut Value) {
        defaults::fill(&self.root, object);
    }

    /// What the API server finds in an object that is to be created or, with `old`, to replace
    /// another one. The object has been pruned and has its defaults. `found` is what was found
    /// before, in its metadata: it comes first, and may hold back the rules.
    pub fn admit(&self, new: &Value, old: Option<&Value>, mut found: Vec<Violation>) -> Findings {
        structural::check(&self.root, new, old, &Path::Root, &mut found);
        embedded::check(&self.root, new, &Path::Root, &mut found);
        self.check_lists(new, old, &mut found);
        self.check_rules(new, old, found)
    }

    /// What the API server finds in an object whose status is to replace that of `old`. The rest of
    /// the object is that of `old`. `found` is what was found before, as for [`Self::admit`].
    pub fn admit_status(&self, new: &Value, old: &Value, mut found: Vec<Violation>) -> Findings {
        if let (Some(schema), Some(status)) = (self.root.field("status"), new.get("status")) {
            structural::check_part(schema, status, old.get("status"), "status", &mut found);
        }
        self.check_lists(new, Some(old), &mut found);
        self.check_rules(new, Some(old), found)
    }

    /// Items that are there twice are news only where there were none before.
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
            tolerated = cel::check(&self.root, new, old, &none, &Path::Root, &mut found);
        } else if self.root.below.rules {
            found.push(Violation::invalid(
                "",
                Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            ));
        }
        // What has no place is at no place, which the API server prints so.
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
