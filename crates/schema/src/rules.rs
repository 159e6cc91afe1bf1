//! CEL validation rules.
//!
//! Evaluated by the `cel` crate, with the types of the schema and within a cost limit.

pub(crate) mod data;
pub(crate) mod field_path;
mod formats;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    fmt,
    sync::Arc,
};

use cel::{
    CompileError as CelError, DataType, Program, TOO_EXPENSIVE, Value as CelValue, Variable,
    VariableType,
};
use formats::ENVIRONMENT;
use serde_json::Value;

use crate::{
    CompileError, Problem, Violation,
    node::{Node, RawRule, Type},
    path::Path,
    ratcheting,
};

/// Limit of messages computed by `messageExpression`.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
/// Cost of one evaluation.
const MAX_COST: u64 = 1_000_000;
/// Cost of all evaluations of an object.
const BUDGET: u64 = 10_000_000;

pub(crate) struct Rule {
    source: String,
    program: Program,
    message: Option<String>,
    message_program: Option<Program>,
    is_transition: bool,
    field_path: Option<String>,
    reason: Reason,
    optional_old_self: bool,
    /// Type of `self`, shared by the rules of a value.
    data: Arc<DataType>,
}

/// Error type of a violated rule.
#[derive(Clone, Copy, Debug)]
enum Reason {
    Invalid,
    Required,
    Forbidden,
    Duplicate,
}

/// Compiles an expression about data of a type.
pub(crate) fn compile(
    source: &str,
    data: &Arc<DataType>,
    is_old_optional: bool,
) -> Result<Program, CelError> {
    let old = if is_old_optional {
        VariableType::Optional(Arc::clone(data))
    } else {
        VariableType::Data(Arc::clone(data))
    };
    let variables = [
        Variable {
            name: "self",
            type_: VariableType::Data(Arc::clone(data)),
        },
        Variable {
            name: "oldSelf",
            type_: old,
        },
    ];
    Program::compile(source, &variables, ENVIRONMENT)
}

impl Rule {
    pub(crate) fn compile(
        written: RawRule,
        node: &Node,
        path: &Path<'_>,
    ) -> Result<Self, CompileError> {
        let source = written.rule.trim();
        let unusable = |message: String| CompileError::Rule {
            path: path.to_string(),
            rule: source.to_owned(),
            message,
        };
        let is_object = path.is_root() || node.embedded_resource;
        let data = data::of(node, is_object)
            .ok_or_else(|| unusable("the schema has no type that rules can see".to_owned()))?;
        let optional_old_self = written.optional_old_self.unwrap_or(false);
        let compile = |source: &str| {
            compile(source, &data, optional_old_self).map_err(|error| {
                let (CelError::Invalid(message) | CelError::Instantiation(message)) = error;
                unusable(message)
            })
        };
        let program = compile(source)?;
        let message_program = written
            .message_expression
            .as_deref()
            .filter(|source| !source.trim().is_empty())
            .map(compile)
            .transpose()?;
        Ok(Self {
            is_transition: program.uses("oldSelf"),
            program,
            message_program,
            source: source.to_owned(),
            message: written
                .message
                .map(|message| message.trim().to_owned())
                .filter(|message| !message.is_empty()),
            field_path: written
                .field_path
                .and_then(|field_path| field_path::normalized(&field_path, node)),
            reason: match written.reason.as_deref() {
                Some("FieldValueRequired") => Reason::Required,
                Some("FieldValueForbidden") => Reason::Forbidden,
                Some("FieldValueDuplicate") => Reason::Duplicate,
                _ => Reason::Invalid,
            },
            optional_old_self,
            data,
        })
    }

    /// Name in errors: the message, or the rule itself.
    fn name(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.source)
    }

    fn message(
        &self,
        variables: &[Result<CelValue<'_>, cel::Error>; 2],
        budget: &Cell<u64>,
    ) -> Result<String, OutOfBudget> {
        if let Some(program) = &self.message_program {
            let (computed, cost) = program.evaluate(variables.to_vec(), MAX_COST);
            let left = budget.get().checked_sub(cost).filter(|_| cost <= MAX_COST);
            budget.set(left.ok_or(OutOfBudget)?);
            if let Ok(CelValue::String(text)) = computed {
                let text = text.trim();
                if !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n') {
                    return Ok(text.to_owned());
                }
            }
        }
        Ok(match &self.message {
            Some(message) => message.clone(),
            None => format!("failed rule: {}", self.source),
        })
    }

    fn broken(&self, node: &Node, value: &Value, path: &Path<'_>, detail: String) -> Violation {
        let shown = match node.type_ {
            Some(Type::Object | Type::Array) => None,
            _ => Some(value.clone()),
        };
        let place = match &self.field_path {
            Some(field) => path.child(field).to_string(),
            None => path.to_string(),
        };
        let problem = match self.reason {
            Reason::Invalid => Problem::Invalid {
                value: shown,
                detail,
            },
            Reason::Required => return Violation::required(place, detail),
            Reason::Forbidden => Problem::Forbidden { detail },
            Reason::Duplicate => match shown {
                Some(value) => Problem::Duplicate { value },
                None => Problem::DuplicateOmitted,
            },
        };
        Violation::at(place, problem)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rule").field(&self.source).finish()
    }
}

/// The rules of the object exceeded the cost limit.
#[derive(Debug)]
struct OutOfBudget;

/// Evaluates all rules of an object. Skips rules whose value contains one of `blocked`, the paths
/// with structural errors. Returns violations tolerated by ratcheting.
pub(crate) fn check(
    root: &Node,
    object: &Value,
    old: Option<&Value>,
    blocked: &BTreeSet<String>,
    path: &Path<'_>,
    found: &mut Vec<Violation>,
) -> Vec<Violation> {
    if !root.subtree.rules {
        return Vec::new();
    }
    let origin = Origin {
        old,
        parent: None,
        is_fixed: false,
    };
    let walk = Walk {
        blocked,
        tolerated: RefCell::default(),
        budget: Cell::new(BUDGET),
    };
    let at = Position::of(root, object, old, origin, path);
    // The last violation already says that evaluation stopped.
    let _ = walk.check(at, found);
    walk.tolerated.into_inner()
}

/// Old value, for ratcheting.
#[derive(Clone, Copy)]
struct Origin<'a> {
    old: Option<&'a Value>,
    /// Nearest ancestor that has an old value.
    parent: Option<(&'a Node, &'a Value, &'a Value)>,
    /// Whether no descendant has an old value.
    is_fixed: bool,
}

impl<'a> Origin<'a> {
    fn of_child(
        self,
        node: &'a Node,
        value: &'a Value,
        old: impl FnOnce(&'a Value) -> Option<&'a Value>,
    ) -> Self {
        match self.old {
            Some(here) if !self.is_fixed => {
                let old = old(here);
                Self {
                    old,
                    parent: Some((node, value, here)),
                    is_fixed: old.is_none(),
                }
            }
            _ => Self {
                is_fixed: true,
                ..self
            },
        }
    }

    fn is_unchanged(self, node: &Node, value: &Value) -> bool {
        match (self.old.filter(|_| !self.is_fixed), self.parent) {
            (Some(old), _) => ratcheting::is_unchanged(node, value, old),
            (None, Some((node, value, old))) => ratcheting::is_unchanged(node, value, old),
            (None, None) => false,
        }
    }
}

/// Value to check, its old value, and its schema.
#[derive(Clone, Copy)]
struct Position<'a> {
    node: &'a Node,
    value: &'a Value,
    old: Option<&'a Value>,
    origin: Origin<'a>,
    path: &'a Path<'a>,
}

impl<'a> Position<'a> {
    /// A field or item.
    fn of(
        node: &'a Node,
        value: &'a Value,
        old: Option<&'a Value>,
        origin: Origin<'a>,
        path: &'a Path<'a>,
    ) -> Self {
        Self {
            node,
            value,
            old,
            origin,
            path,
        }
    }
}

struct Walk<'b> {
    blocked: &'b BTreeSet<String>,
    tolerated: RefCell<Vec<Violation>>,
    /// Cost that is left for the object.
    budget: Cell<u64>,
}

impl Walk<'_> {
    fn check(&self, at: Position<'_>, found: &mut Vec<Violation>) -> Result<(), OutOfBudget> {
        let Position {
            node, value, path, ..
        } = at;
        if !node.subtree.rules || value.is_null() {
            return Ok(());
        }
        if !node.rules.is_empty() && !path.contains_any(self.blocked) {
            self.check_rules(&at, found)?;
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let Some((schema, path)) = node.field_at(name, path) else {
                        continue;
                    };
                    if schema.drops(field) {
                        continue;
                    }
                    let old = at
                        .old
                        .and_then(|old| old.get(name))
                        .filter(|old| !schema.drops(old));
                    let is_type = path_is_type(&path);
                    let origin = at
                        .origin
                        .of_child(node, value, |old| old.get(name).filter(|_| !is_type));
                    let at = Position::of(schema, field, old, origin, &path);
                    self.check(at, found)?;
                }
            }
            Value::Array(items) => {
                let Some(schema) = &node.items else {
                    return Ok(());
                };
                let old_items = ratcheting::OldItems::of(node, at.old);
                let origins = ratcheting::OldItems::of(node, at.origin.old);
                for (index, item) in items.iter().enumerate() {
                    let old = old_items.same_as(item);
                    let origin = at.origin.of_child(node, value, |_| origins.same_as(item));
                    let path = path.index(index);
                    let at = Position::of(schema, item, old, origin, &path);
                    self.check(at, found)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check_rules(
        &self,
        at: &Position<'_>,
        found: &mut Vec<Violation>,
    ) -> Result<(), OutOfBudget> {
        let Position {
            node,
            value,
            old,
            origin,
            path,
        } = *at;
        let type_ = || Value::from(node.type_.map_or("", Type::name));
        if self.budget.get() == 0 {
            found.push(Violation::invalid(path.to_string(), type_(), NO_BUDGET));
            return Err(OutOfBudget);
        }
        for rule in &node.rules {
            if rule.is_transition && old.is_none() && !rule.optional_old_self {
                continue;
            }
            let value_of = |value| CelValue::of(value, &rule.data);
            let old_value = match (old.map(value_of), rule.optional_old_self) {
                (Some(Ok(old)), true) => Ok(CelValue::optional(Some(old))),
                (Some(old), _) => old,
                (None, true) => Ok(CelValue::optional(None)),
                (None, false) => Ok(CelValue::Null),
            };
            let variables = [value_of(value), old_value];
            let (verdict, cost) = rule.program.evaluate(variables.to_vec(), MAX_COST);
            if let Some(left) = self.budget.get().checked_sub(cost) {
                self.budget.set(left);
            } else {
                found.push(Violation::invalid(path.to_string(), type_(), NO_BUDGET));
                return Err(OutOfBudget);
            }
            let error = match verdict {
                Ok(CelValue::Bool(true)) => continue,
                Ok(_) => {
                    let Ok(detail) = rule.message(&variables, &self.budget) else {
                        let detail = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
                        found.push(Violation::invalid(path.to_string(), type_(), detail));
                        return Err(OutOfBudget);
                    };
                    let broken = rule.broken(node, value, path, detail);
                    if rule.is_transition || !origin.is_unchanged(node, value) {
                        found.push(broken);
                    } else {
                        self.tolerated.borrow_mut().push(broken);
                    }
                    continue;
                }
                Err(error) => error.to_string(),
            };
            let name = rule.name();
            let detail = if error.starts_with("no such overload") {
                format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                )
            } else if error.starts_with(TOO_EXPENSIVE) {
                format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                )
            } else {
                format!("{error} evaluating rule: {name}")
            };
            found.push(Violation::invalid(path.to_string(), type_(), detail));
            if error.starts_with(TOO_EXPENSIVE) {
                return Err(OutOfBudget);
            }
        }
        Ok(())
    }
}

const NO_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// `apiVersion` and `kind` do not change with an update.
fn path_is_type(path: &Path<'_>) -> bool {
    matches!(path, Path::Field(parent, "apiVersion" | "kind") if parent.is_root())
}
