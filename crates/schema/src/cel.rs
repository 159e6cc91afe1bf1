//! CEL validation rules.
//!
//! Evaluated by a CEL library with the functions that Kubernetes adds, within a cost limit: see
//! [`cost`].

mod cost;
pub(crate) mod field_path;
mod functions;
mod names;
pub(crate) mod type_check;
mod values;

use std::{cell::RefCell, collections::BTreeSet, fmt, sync::Arc};

use cost::{InvalidRule, MeteredRule};
use functions::FUNCTIONS;
use kube_cel::cel::{Context, ExecutionError, Value as CelValue, objects::OptionalValue};
use serde_json::Value;
use values::to_cel;

use crate::{
    CompileError, Problem, Violation,
    node::{Node, RawRule, Type},
    path::Path,
    ratcheting,
};

/// Limit of messages computed by `messageExpression`.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

pub(crate) struct Rule {
    source: String,
    expression: MeteredRule,
    message: Option<String>,
    message_expression: Option<MeteredRule>,
    is_transition: bool,
    field_path: Option<String>,
    reason: Reason,
    optional_old_self: bool,
}

/// Error type of a violated rule.
#[derive(Clone, Copy, Debug)]
enum Reason {
    Invalid,
    Required,
    Forbidden,
    Duplicate,
}

impl Rule {
    pub(crate) fn compile(
        written: RawRule,
        node: &Node,
        path: &Path<'_>,
    ) -> Result<Self, CompileError> {
        let parse = |source: &str| {
            let place = || path.to_string();
            cost::parse(source).map_err(|unusable| match unusable {
                InvalidRule::TooLarge(detail) => CompileError::RuleTooLarge {
                    path: place(),
                    detail,
                },
                InvalidRule::Unparsable(errors) => CompileError::Rule {
                    path: place(),
                    rule: source.to_owned(),
                    message: errors.to_string(),
                },
                InvalidRule::Unsupported(message) => CompileError::Rule {
                    path: place(),
                    rule: source.to_owned(),
                    message: message.to_owned(),
                },
            })
        };
        let rule = parse(written.rule.trim())?;
        let message_expression = written
            .message_expression
            .as_deref()
            .filter(|source| !source.trim().is_empty())
            .map(parse)
            .transpose()?;
        Ok(Self {
            is_transition: rule.uses_old_self,
            expression: rule,
            message_expression,
            source: written.rule.trim().to_owned(),
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
            optional_old_self: written.optional_old_self.unwrap_or(false),
        })
    }

    /// Name in errors: the message, or the rule itself.
    fn name(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.source)
    }

    fn message(&self, scope: &Context<'_>) -> Result<String, OutOfBudget> {
        if let Some(expression) = &self.message_expression {
            let computed = expression.evaluate(scope);
            if cost::is_exhausted() {
                return Err(OutOfBudget);
            }
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
    cost::start();
    let origin = Origin {
        old,
        parent: None,
        is_fixed: false,
    };
    let walk = Walk {
        blocked,
        tolerated: RefCell::default(),
    };
    let at = Position {
        is_object: true,
        ..Position::of(root, object, old, origin, path)
    };
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
    is_object: bool,
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
            is_object: node.embedded_resource,
        }
    }
}

struct Walk<'b> {
    blocked: &'b BTreeSet<String>,
    tolerated: RefCell<Vec<Violation>>,
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
            is_object,
        } = *at;
        let mut scope = FUNCTIONS.new_inner_scope();
        scope.add_variable_from_value("self", to_cel(node, value, is_object));
        let old = if node.rules.iter().any(|rule| rule.is_transition) {
            old.map(|old| to_cel(node, old, is_object))
        } else {
            None
        };
        let type_ = || Value::from(node.type_.map_or("", Type::name));
        for rule in &node.rules {
            let mut scope = scope.new_inner_scope();
            match (&old, rule.optional_old_self) {
                (None, false) if rule.is_transition => continue,
                (old, true) => {
                    let old = match old {
                        Some(old) => OptionalValue::of(old.clone()),
                        None => OptionalValue::none(),
                    };
                    scope.add_variable_from_value("oldSelf", CelValue::Opaque(Arc::new(old)));
                }
                (Some(old), false) => scope.add_variable_from_value("oldSelf", old.clone()),
                (None, false) => {}
            }
            let verdict = rule.expression.evaluate(&scope);
            if cost::is_exhausted() {
                return Err(out_of_budget(rule, &type_(), path, found));
            }
            match verdict {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => {
                    let Ok(detail) = rule.message(&scope) else {
                        return Err(out_of_budget(rule, &type_(), path, found));
                    };
                    let broken = rule.broken(node, value, path, detail);
                    if rule.is_transition || !origin.is_unchanged(node, value) {
                        found.push(broken);
                    } else {
                        self.tolerated.borrow_mut().push(broken);
                    }
                }
                Err(error) => found.push(Violation::invalid(
                    path.to_string(),
                    type_(),
                    error_text(&error, rule),
                )),
            }
        }
        Ok(())
    }
}

/// `apiVersion` and `kind` do not change with an update.
fn path_is_type(path: &Path<'_>) -> bool {
    matches!(path, Path::Field(parent, "apiVersion" | "kind") if parent.is_root())
}

fn out_of_budget(
    rule: &Rule,
    type_: &Value,
    path: &Path<'_>,
    found: &mut Vec<Violation>,
) -> OutOfBudget {
    let detail = format!(
        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
        rule.name()
    );
    found.push(Violation::invalid(path.to_string(), type_.clone(), detail));
    OutOfBudget
}

/// Evaluation error as cel-go words it.
fn error_text(error: &ExecutionError, rule: &Rule) -> String {
    let name = rule.name();
    let text = match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(index) => {
            let index = match index {
                CelValue::Int(index) => index.to_string(),
                CelValue::UInt(index) => index.to_string(),
                _ => "0".to_owned(),
            };
            format!("index out of bounds: {index}")
        }
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        _ => {
            return format!(
                "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: {name}"
            );
        }
    };
    format!("{text} evaluating rule: {name}")
}
