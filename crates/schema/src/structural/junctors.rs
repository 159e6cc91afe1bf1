//! Combined schemas: `allOf`, `anyOf`, `oneOf` and `not`.

use std::collections::BTreeSet;

use apimachinery::go::quote;
use serde_json::Value;

use super::{StructuralResult, check_value};
use crate::{
    node::{Junctors, Node},
    path::Path,
};

/// No ratcheting: kube-apiserver does not correlate old values inside combined schemas.
pub(super) fn check(junctors: &Junctors, value: &Value, path: &Path<'_>) -> StructuralResult {
    let mut outcome = StructuralResult::default();
    let here = || quote(&path.dotted());
    let checked = |schema: &Node| check_value(schema, value, None, path);
    if !junctors.any_of.is_empty() {
        let mut best: Option<StructuralResult> = None;
        for schema in &junctors.any_of {
            let alternative = checked(schema);
            let fits = alternative.is_valid();
            if fits || is_better(&alternative, best.as_ref()) {
                best = Some(alternative);
            }
            if fits {
                break;
            }
        }
        if best.as_ref().is_none_or(|best| !best.is_valid()) {
            outcome.push_without_path(format!(
                "{} must validate at least one schema (anyOf)",
                here()
            ));
        }
        outcome.merge(best.unwrap_or_default());
    }
    if !junctors.one_of.is_empty() {
        let mut best: Option<StructuralResult> = None;
        let mut fitting = 0;
        for schema in &junctors.one_of {
            let alternative = checked(schema);
            if alternative.is_valid() {
                fitting += 1;
                if fitting == 1 {
                    best = Some(alternative);
                }
            } else if fitting == 0 && is_better(&alternative, best.as_ref()) {
                best = Some(alternative);
            }
        }
        let wrong = match fitting {
            0 => Some("Found none valid".to_owned()),
            1 => None,
            several => Some(format!("Found {several} valid alternatives")),
        };
        if let Some(wrong) = wrong {
            outcome.push_without_path(format!(
                "{} must validate one and only one schema (oneOf). {wrong}",
                here()
            ));
        }
        if fitting <= 1 {
            outcome.merge(best.unwrap_or_default());
        }
    }
    if !junctors.all_of.is_empty() {
        let mut fitting = 0;
        for schema in &junctors.all_of {
            let part = checked(schema);
            fitting += usize::from(part.is_valid());
            outcome.merge(part);
        }
        if fitting != junctors.all_of.len() {
            let none = if fitting == 0 { ". None validated" } else { "" };
            outcome.push_without_path(format!(
                "{} must validate all the schemas (allOf){none}",
                here()
            ));
        }
    }
    if let Some(not) = &junctors.not
        && checked(not).is_valid()
    {
        outcome.push_without_path(format!("{} must not validate the schema (not)", here()));
    }
    // Several alternatives may report the same violation.
    let mut texts = BTreeSet::new();
    outcome
        .found
        .retain(|violation| texts.insert(violation.to_string()));
    outcome
}

fn is_better(alternative: &StructuralResult, best: Option<&StructuralResult>) -> bool {
    best.is_none_or(|best| alternative.passed > best.passed)
}
