//! Match conditions: CEL expressions that decide whether a webhook is called.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use kube_cel::{
    KubeCelExt,
    cel::{
        Context, ExecutionError, Program, Value as CelValue,
        common::ast::{EntryExpr, Expr},
        objects::{Key, Map},
    },
};
use serde_json::Value;

use super::{Request, hook::text, matching::Invocation, review};
use crate::{ApiError, ObjectRef};

static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// Bounds that keep the recursive CEL parser within [`STACK`].
const MAX_LENGTH: usize = 2048;
const MAX_DEPTH: usize = 64;
const MAX_LOOPS: usize = 2;

/// The parser needs up to 256 KiB of stack per bracket and 40 KiB per operator. Untouched pages
/// cost no memory.
const STACK: usize = 128 << 20;

/// Whether all match conditions of a webhook are true.
///
/// As in kube-apiserver, one false condition outweighs evaluation errors; if there are only errors
/// and true conditions, the failure policy decides.
pub(super) fn matches(
    invocation: &Invocation<'_>,
    request: &Request<'_>,
) -> Result<bool, ApiError> {
    let conditions = invocation.hook.field("matchConditions").as_array();
    let Some(conditions) = conditions.filter(|conditions| !conditions.is_empty()) else {
        return Ok(true);
    };
    let review = review::request(invocation, request, "");
    let (matched, mut problems) = with_deep_stack(|| evaluate_all(conditions, &review))
        .unwrap_or_else(|problem| (true, vec![problem]));
    if !matched {
        return Ok(false);
    }
    if problems.is_empty() {
        return Ok(true);
    }
    if invocation.hook.ignores_failure() {
        return Ok(false);
    }
    problems.dedup();
    let why = match problems.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let object = ObjectRef {
        group: request.resource.group,
        resource: request.resource.resource,
        name: request.name,
    };
    Err(ApiError::forbidden(object, &why))
}

/// Runs `work` on a thread with enough stack for the largest allowed expression.
fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("match conditions".into())
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .map_err(|error| format!("match conditions cannot be evaluated: {error}"))?
            .join()
            .map_err(|_| "match conditions cannot be evaluated".to_owned())
    })
}

/// Whether no condition is false, and the evaluation errors.
fn evaluate_all(conditions: &[Value], review: &Value) -> (bool, Vec<String>) {
    let mut scope = FUNCTIONS.new_inner_scope();
    scope.add_variable_from_value("object", to_cel(&review["object"]));
    scope.add_variable_from_value("oldObject", to_cel(&review["oldObject"]));
    scope.add_variable_from_value("request", to_cel(review));
    let mut problems = Vec::new();
    for condition in conditions {
        match evaluate(text(condition, "expression"), &scope) {
            Ok(true) => {}
            Ok(false) => return (false, problems),
            Err(problem) => problems.push(problem),
        }
    }
    (true, problems)
}

/// Maximum bracket nesting; brackets inside string literals count too.
fn depth(expression: &str) -> usize {
    let mut depth: usize = 0;
    let mut deepest = 0;
    for letter in expression.bytes() {
        match letter {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn evaluate(expression: &str, scope: &Context<'_>) -> Result<bool, String> {
    if expression.len() > MAX_LENGTH || depth(expression) > MAX_DEPTH {
        return Err(format!(
            "the sandbox does not support expressions longer than {MAX_LENGTH} bytes or nested \
             deeper than {MAX_DEPTH} brackets"
        ));
    }
    let program = Program::compile(expression)
        .map_err(|error| format!("expression '{expression}' resulted in error: {error}"))?;
    check(&program.expression().expr, 0)
        .map_err(|why| format!("expression '{expression}' resulted in error: {why}"))?;
    match program.execute(scope) {
        Ok(CelValue::Bool(matched)) => Ok(matched),
        Ok(_) => Err(format!(
            "cel expression '{expression}' must evaluate to bool"
        )),
        Err(error) => {
            let why = match error {
                ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
                other => other.to_string(),
            };
            Err(format!(
                "expression '{expression}' resulted in error: {why}"
            ))
        }
    }
}

/// Refuses expressions at which the CEL library panics, and nested comprehensions, whose cost is
/// unbounded.
fn check(expression: &Expr, loops: usize) -> Result<(), &'static str> {
    const NO_MESSAGES: &str = "the sandbox does not support CEL message literals";
    match expression {
        Expr::Struct(_) | Expr::Unspecified => Err(NO_MESSAGES),
        Expr::Ident(_) | Expr::Literal(_) => Ok(()),
        Expr::Select(select) => check(&select.operand.expr, loops),
        Expr::List(list) => list
            .elements
            .iter()
            .try_for_each(|element| check(&element.expr, loops)),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => {
                check(&entry.key.expr, loops)?;
                check(&entry.value.expr, loops)
            }
            EntryExpr::StructField(_) => Err(NO_MESSAGES),
        }),
        Expr::Call(call) => call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .try_for_each(|argument| check(&argument.expr, loops)),
        Expr::Comprehension(inner) => {
            if loops == MAX_LOOPS {
                return Err("the sandbox does not support more than two nested comprehensions");
            }
            check(&inner.iter_range.expr, loops)?;
            [
                &inner.accu_init,
                &inner.loop_cond,
                &inner.loop_step,
                &inner.result,
            ]
            .into_iter()
            .try_for_each(|part| check(&part.expr, loops + 1))
        }
    }
}

fn to_cel(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => CelValue::Int(number),
            (None, Some(number), _) => CelValue::UInt(number),
            (None, None, number) => CelValue::Float(number.unwrap_or(f64::NAN)),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => {
            let map: HashMap<Key, CelValue> = fields
                .iter()
                .map(|(name, value)| (Key::String(Arc::new(name.clone())), to_cel(value)))
                .collect();
            CelValue::Map(Map { map: Arc::new(map) })
        }
    }
}
