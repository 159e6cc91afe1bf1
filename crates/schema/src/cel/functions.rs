//! CEL functions: the standard library, the Kubernetes extensions, and replacements for two
//! functions that could overflow or recompile the same pattern.

use std::{
    cmp::Ordering,
    collections::HashMap,
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

use kube_cel::{
    KubeCelExt,
    cel::{Context, ExecutionError, Value, extractors::This, functions, objects::Opaque},
};
use quantity::Quantity;
use regex::Regex;

use super::cost;

/// Context with all functions, from which scopes derive.
pub(super) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut functions = Context::default().with_all();
    functions.add_function(cost::COUNT, cost::count);
    functions.add_function(cost::COUNT_ITERATION, cost::count_iteration);
    functions.add_function("matches", matches);
    functions.add_function("isQuantity", is_quantity);
    functions.add_function("quantity", to_quantity);
    functions.add_function("sign", |amount: Value| {
        compare_to_zero(&amount).map(|order| order as i64)
    });
    functions.add_function("compareTo", |This(one): This<Value>, other: Value| {
        compare(&one, &other).map(|order| order as i64)
    });
    functions.add_function("isLessThan", |This(one): This<Value>, other: Value| {
        compare(&one, &other).map(Ordering::is_lt)
    });
    functions.add_function("isGreaterThan", |This(one): This<Value>, other: Value| {
        compare(&one, &other).map(Ordering::is_gt)
    });
    functions.add_function("type", |value: Value| -> Result<Value, ExecutionError> {
        Ok(type_of(&value))
    });
    for name in super::names::TYPES {
        functions.add_variable_from_value(name, type_value(name));
    }
    functions
});

/// Type value: result of `type()`, and meaning of `int` and the like.
#[derive(Debug, PartialEq, Eq)]
struct TypeValue(String);

impl Opaque for TypeValue {
    fn runtime_type_name(&self) -> &'static str {
        "type"
    }
}

fn type_value(name: &str) -> Value {
    Value::Opaque(Arc::new(TypeValue(name.to_owned())))
}

fn type_of(value: &Value) -> Value {
    type_value(match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::Duration(_) => "duration",
        Value::Timestamp(_) => "timestamp",
        Value::Opaque(opaque) => opaque.runtime_type_name(),
        Value::Function(..) => "function",
    })
}

/// `text.matches(pattern)` with a cache: compiling a pattern takes far longer than using it, and
/// rules use the same few for every object.
fn matches(This(text): This<Arc<String>>, pattern: Arc<String>) -> Result<bool, ExecutionError> {
    /// More than the rules of a schema have; patterns computed from objects are not cached beyond
    /// it.
    const MAX_CACHED: usize = 1024;
    static PATTERNS: LazyLock<RwLock<HashMap<Arc<String>, Regex>>> = LazyLock::new(RwLock::default);

    let known = PATTERNS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(&pattern) {
        return Ok(known.is_match(&text));
    }
    drop(known);
    let parsed =
        Regex::new(&pattern).map_err(|error| ExecutionError::function_error("matches", error))?;
    let matches = parsed.is_match(&text);
    let mut known = PATTERNS.write().unwrap_or_else(PoisonError::into_inner);
    if known.len() < MAX_CACHED {
        known.insert(pattern, parsed);
    }
    Ok(matches)
}

/// A timestamp, or the string itself if it is none.
pub(super) fn timestamp(text: Arc<String>) -> Value {
    functions::timestamp(Arc::clone(&text)).unwrap_or(Value::String(text))
}

/// CEL value of a quantity.
#[derive(Debug, PartialEq, Eq)]
struct Amount(Quantity);

impl Opaque for Amount {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }
}

fn is_quantity(text: Value) -> bool {
    matches!(text, Value::String(text) if text.parse::<Quantity>().is_ok())
}

#[expect(clippy::needless_pass_by_value, reason = "the form of a CEL function")]
fn to_quantity(text: Arc<String>) -> Result<Value, ExecutionError> {
    let amount = text
        .parse()
        .map_err(|error: quantity::ParseError| ExecutionError::function_error("quantity", error))?;
    Ok(Value::Opaque(Arc::new(Amount(amount))))
}

fn amount(value: &Value) -> Result<Quantity, ExecutionError> {
    let amount = match value {
        Value::Opaque(value) => value.downcast_ref::<Amount>(),
        _ => None,
    };
    amount.map(|amount| amount.0).ok_or_else(|| {
        ExecutionError::function_error("quantity", "is used on a value that is not a quantity")
    })
}

fn compare(one: &Value, other: &Value) -> Result<Ordering, ExecutionError> {
    Ok(amount(one)?.cmp(&amount(other)?))
}

fn compare_to_zero(value: &Value) -> Result<Ordering, ExecutionError> {
    Ok(amount(value)?.cmp(&Quantity::from_bytes(0)))
}
