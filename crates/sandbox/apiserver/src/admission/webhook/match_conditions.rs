//! Match conditions: CEL that decides whether a webhook is called.

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

/// Longer expressions, and those with more brackets in each other, are not parsed: how deep the
/// parser goes must not be for others to choose.
const MAX_LENGTH: usize = 2048;
const MAX_DEPTH: usize = 64;
const MAX_LOOPS: usize = 2;

/// The parser takes up to 256 KiB for each bracket and 40 KiB for each operator. Only what is used
/// of it takes memory.
const STACK: usize = 128 << 20;

/// Whether all conditions of a webhook hold. One that does not hold outweighs those that cannot be
/// evaluated; with only such and those that hold, the failure policy decides.
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

/// Runs `work` where an expression of the largest size that is allowed cannot exhaust the stack.
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

/// Whether no condition says no, and which cannot be evaluated.
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

/// How many brackets are in each other at most. Those in texts count too.
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
            "the sandbox does not have expressions of more than {MAX_LENGTH} bytes, or with more \
             than {MAX_DEPTH} brackets in each other"
        ));
    }
    let program = Program::compile(expression)
        .map_err(|error| format!("expression '{expression}' resulted in error: {error}"))?;
    check(&program.expression().expr, 0)
        .map_err(|why| format!("expression '{expression}' resulted in error: {why}"))?;
    match program.execute(scope) {
        Ok(CelValue::Bool(matched)) => Ok(matched),
        Ok(_) => Err(format!(
            "cel expression '{expression}' does not say yes or no"
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

/// Refuses what the CEL library does not evaluate but panics at, and loops in loops in loops, which
/// can take longer than anybody waits.
fn check(expression: &Expr, loops: usize) -> Result<(), &'static str> {
    const NO_MESSAGES: &str = "the sandbox does not have messages";
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
                return Err("the sandbox does not have more than two loops in each other");
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
