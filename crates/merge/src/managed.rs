//! Server-side apply, and ownership of fields.
//!
//! Every write passes through this module: [`apply`] for an applied configuration, [`update`] for
//! all others. Both leave `metadata.managedFields` of the new object as a kube-apiserver would,
//! given the same clock.
//!
//! Entries of another version of the kind are assumed to have the same paths: there is no
//! conversion.

mod cap;
mod conflict;
mod entries;
mod last_applied;
mod update;

use serde_json::{Map, Value};

pub use conflict::{ApplyError, Cause, Conflict, Conflicts};

use crate::fields::FieldSet;
use crate::ordered::same;
use crate::shape::Shape;
use crate::typed::{
    Duplicates, compare, merge, remove_items, to_field_set, validate, with_declared_fields,
};
use entries::{Entry, Managed, ManagerId, Operation};

/// Owner of fields that were set before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The write whose fields are recorded.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub manager: &'a str,
    /// As in `apps/v1`.
    pub api_version: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// In RFC 3339.
    pub time: &'a str,
    /// Fields that the write cannot change, with their parts: `status` for the object itself,
    /// everything else for its status subresource. No one owns them through it.
    pub reset_fields: &'a FieldSet,
}

/// Applies a configuration to the live object, or creates one from it. The result has managed
/// fields, but is neither defaulted nor validated.
///
/// A configuration that changes nothing yields an equal object with the same times. Call
/// [`ignore_times`] after defaulting and admission to detect a write without changes.
pub fn apply(
    shape: &Shape,
    live: Option<&Value>,
    applied: &Value,
    context: &Context<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let mut managed = entries::decode(live.and_then(entries::of)).map_err(|error| {
        ApplyError::Internal(format!("failed to decode managed fields: {error}"))
    })?;
    check_version(applied, context)?;

    let empty = with_type(shape.empty_object(), applied);
    let live = live.unwrap_or(&empty);
    if managed.is_empty() {
        let before = Context {
            manager: BEFORE_FIRST_APPLY,
            ..*context
        };
        update::record(shape, &empty, live, &mut managed, &before).map_err(|()| {
            ApplyError::Internal(format!(
                "failed to create manager for existing fields: object does not fit its schema ({})",
                identity(live)
            ))
        })?;
    }

    let mut outcome = merge_applied(shape, live, applied, managed.clone(), context, force);
    if context.manager == last_applied::MANAGER
        && let Err(ApplyError::Conflicts(conflicts)) = outcome
    {
        let rest = match last_applied::allowed_conflicts(shape, live, context.api_version) {
            Some(allowed) => conflicts.without(&allowed),
            None => Some(conflicts),
        };
        outcome = match rest {
            Some(conflicts) => Err(ApplyError::Conflicts(conflicts)),
            None => merge_applied(shape, live, applied, managed, context, true),
        };
    }
    let mut object = outcome?;
    if context.manager == last_applied::MANAGER {
        last_applied::refresh(&mut object, applied);
    }
    Ok(object)
}

/// Updates the managed fields of `new` after a write other than apply. `new` is the object to be
/// stored, `live` the stored one.
///
/// Managed fields in the request replace those of the live object if they are valid and the request
/// is not for a subresource; a list of one empty entry (for built-in kinds also an empty list)
/// resets them. An object without managed fields stays so until the first apply.
pub fn update(shape: &Shape, live: Option<&Value>, new: &mut Value, context: &Context<'_>) {
    let mut managed = update::start(shape, live, new, !context.subresource.is_empty());
    entries::set(new, None);
    let exists = live
        .and_then(|live| live.get("metadata")?.get("uid")?.as_str())
        .is_some_and(|uid| !uid.is_empty());
    if managed.is_empty() && exists {
        return;
    }
    let empty;
    let before = if let Some(live) = live {
        live
    } else {
        empty = with_type(shape.empty_object(), new);
        &empty
    };
    let list = match update::record(shape, before, new, &mut managed, context) {
        Ok(()) => entries::encode(&managed),
        Err(()) => live.and_then(entries::of).cloned(),
    };
    entries::set(new, list);
}

/// Restores the times of managers if nothing else changed, so that the write has no effect. The
/// server does this for applied objects, after admission.
pub fn ignore_times(live: &Value, new: &mut Value) {
    let (Some(Value::Array(before)), Some(Value::Array(after))) =
        (entries::of(live), entries::of(new))
    else {
        return;
    };
    let equal = before.len() == after.len()
        && before
            .iter()
            .zip(after)
            .all(|(before, after)| equal_except("time", before, after, |_, _| true));
    if equal && equal_except("metadata", live, new, equal_metadata) {
        let list = Some(Value::Array(before.clone()));
        entries::set(new, list);
    }
}

/// Whether two objects have equal metadata, apart from managed fields.
fn equal_metadata(left: Option<&Value>, right: Option<&Value>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => equal_except("managedFields", left, right, |_, _| true),
        (left, right) => left == right,
    }
}

/// Whether two objects are equal; the named field is compared by `is_equal`.
fn equal_except(
    name: &str,
    left: &Value,
    right: &Value,
    is_equal: impl Fn(Option<&Value>, Option<&Value>) -> bool,
) -> bool {
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else {
        return left == right;
    };
    let others = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(name));
    is_equal(left.get(name), right.get(name))
        && others(left) == others(right)
        && left
            .iter()
            .all(|(field, value)| field == name || right.get(field) == Some(value))
}

fn merge_applied(
    shape: &Shape,
    live: &Value,
    applied: &Value,
    mut managed: Managed,
    context: &Context<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    if entries::of(applied).is_some_and(|list| !list.is_null()) {
        return Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".to_owned(),
        ));
    }
    validate(shape, applied, Duplicates::Refused).map_err(|errors| {
        ApplyError::Internal(format!(
            "failed to create typed patch object ({}): {errors}",
            identity(applied)
        ))
    })?;
    validate(shape, live, Duplicates::Allowed).map_err(|errors| {
        ApplyError::Internal(format!(
            "failed to create typed live object ({}): {errors}",
            identity(live)
        ))
    })?;

    let id = ManagerId::of(context, Operation::Apply);
    update::reconcile_all(shape, &mut managed);
    let merged = merge(shape, live, applied);
    let set = to_field_set(shape, applied).recursive_difference(context.reset_fields);
    let last = managed.remove(&id);
    let time = last.as_ref().and_then(|last| last.time.clone());
    let api_version = context.api_version.to_owned();
    managed.insert(
        id.clone(),
        Entry {
            api_version,
            set: set.clone(),
            time,
        },
    );
    let mut object = match last {
        Some(last) if !last.set.difference(&set).is_empty() => {
            prune(shape, &merged, &managed, &last.set)
        }
        _ => merged,
    };

    let comparison = compare(shape, live, &object).without(context.reset_fields);
    update::transfer(&mut managed, &comparison, Some(&id), force).map_err(ApplyError::Conflicts)?;
    if !same(&object, live)
        && let Some(entry) = managed.get_mut(&id)
    {
        entry.time = crate::time::canonical(context.time);
    }
    update::strip(&mut managed, &id);
    entries::set(&mut object, entries::encode(&managed));
    Ok(object)
}

/// Removes fields that the manager applied last time but not this time, and that no one else owns.
///
/// A field of a structure that was owned through its parts is removed with the last of them, unless
/// it has parts of other managers.
fn prune(shape: &Shape, merged: &Value, managed: &Managed, last: &FieldSet) -> Value {
    let declared = |set: &FieldSet| with_declared_fields(shape, set);
    let fields = |value: &Value| declared(&to_field_set(shape, value));
    let last = declared(last);
    let owned = managed
        .values()
        .fold(FieldSet::default(), |owned, entry| owned.union(&entry.set));
    let all = fields(merged);
    let pruned = remove_items(shape, merged, &last);
    let unowned = all.difference(&fields(&pruned).union(&declared(&owned)));
    let pruned = remove_items(shape, merged, &unowned);
    let removed = all.difference(&fields(&pruned)).intersection(&last);
    remove_items(shape, merged, &removed)
}

fn check_version(applied: &Value, context: &Context<'_>) -> Result<(), ApplyError> {
    let version = applied
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if version == context.api_version {
        return Ok(());
    }
    Err(ApplyError::BadRequest(format!(
        "invalid object type: {}",
        group_version_kind(applied)
    )))
}

/// An empty custom resource has its type; built-in kinds are compared without it.
fn with_type(mut empty: Value, object: &Value) -> Value {
    if let (Some(empty), Some(object)) = (empty.as_object_mut(), object.as_object()) {
        for name in ["apiVersion", "kind"] {
            if let Some(value) = object.get(name) {
                empty.insert(name.to_owned(), value.clone());
            }
        }
    }
    empty
}

/// How the server names an object in messages: `namespace/name; apps/v1, Kind=Deployment`.
fn identity(object: &Value) -> String {
    let none = Value::Object(Map::new());
    let metadata = object.get("metadata").unwrap_or(&none);
    let text = |name: &str| {
        metadata
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    format!(
        "{}/{}; {}",
        text("namespace"),
        text("name"),
        group_version_kind(object)
    )
}

fn group_version_kind(object: &Value) -> String {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", text("kind"))
}

#[cfg(test)]
mod tests;
