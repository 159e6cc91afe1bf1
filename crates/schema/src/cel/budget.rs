//! A bound on what the rules of one object may cost.
//!
//! The CEL library evaluates whatever it is given, for as long as it takes. So every rule is
//! rewritten when it is compiled: each turn of a loop, each argument of a function and each text or
//! list that is put together passes through a function that counts it, by its size, and fails once
//! the object's budget is used up. What is left between two counts takes time in proportion to what
//! was counted. Rules that are too long or too deep to be walked on a stack are not compiled.

use std::cell::Cell;

use kube_cel::cel::{
    ExecutionError, Value,
    common::ast::{CallExpr, EntryExpr, Expr, IdedExpr},
    parser::Expression,
};

/// What the rules of one object may cost: the API server has the same figure, in units of its own.
const BUDGET: u64 = 10_000_000;
/// How long a rule may be, in bytes.
const LONGEST_RULE: usize = 32 * 1024;
/// How many operators, calls and selections a rule may have: each may be one level of depth.
const DEEPEST_RULE: usize = 1_000;
/// The function that counts; no rule can write its name.
pub(super) const COUNT: &str = "@count";

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Begins the evaluation of an object's rules.
pub(super) fn start() {
    LEFT.set(BUDGET);
}

/// Whether the budget is used up.
pub(super) fn is_exhausted() -> bool {
    LEFT.get() == 0
}

/// Counts a value, and gives it back.
pub(super) fn count(value: Value) -> Result<Value, ExecutionError> {
    let left = LEFT.get().saturating_sub(size(&value));
    LEFT.set(left);
    if left == 0 {
        return Err(ExecutionError::function_error(
            COUNT,
            "actual cost limit exceeded",
        ));
    }
    Ok(value)
}

/// How large a value is, with all that it holds. Values are as deep as JSON may be.
fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text.len() as u64 / 16,
        Value::Bytes(bytes) => 1 + bytes.len() as u64 / 16,
        Value::List(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Map(map) => 1 + map.map.values().map(|value| 1 + size(value)).sum::<u64>(),
        _ => 1,
    }
}

/// Whether a rule is small enough to be parsed and evaluated by functions that call themselves.
pub(super) fn bounded_source(source: &str) -> Result<(), &'static str> {
    if source.len() > LONGEST_RULE {
        return Err("is longer than 32 KiB");
    }
    let deepening = source
        .bytes()
        .filter(|byte| b"+-*/%<>=!&|?.,[({".contains(byte))
        .count();
    if deepening > DEEPEST_RULE {
        return Err("has more than 1000 operators");
    }
    Ok(())
}

/// A rule that counts what it costs.
pub(super) fn counted(expression: &Expression) -> Result<Expression, &'static str> {
    let mut expression = expression.clone();
    rewrite(&mut expression)?;
    Ok(expression)
}

fn rewrite(expression: &mut IdedExpr) -> Result<(), &'static str> {
    match &mut expression.expr {
        // The library does not evaluate these, it panics.
        Expr::Struct(_) | Expr::Unspecified => {
            return Err("messages cannot be constructed in rules");
        }
        Expr::Ident(_) | Expr::Literal(_) => {}
        Expr::Select(select) => rewrite(&mut select.operand)?,
        Expr::List(list) => {
            for element in &mut list.elements {
                rewrite(element)?;
            }
        }
        Expr::Map(map) => {
            for entry in &mut map.entries {
                match &mut entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        rewrite(&mut entry.key)?;
                        rewrite(&mut entry.value)?;
                    }
                    EntryExpr::StructField(_) => {
                        return Err("messages cannot be constructed in rules");
                    }
                }
            }
        }
        Expr::Comprehension(comprehension) => {
            rewrite(&mut comprehension.iter_range)?;
            rewrite(&mut comprehension.accu_init)?;
            rewrite(&mut comprehension.loop_step)?;
            rewrite(&mut comprehension.result)?;
            wrap(&mut comprehension.loop_cond);
        }
        Expr::Call(call) => {
            let is_function = call
                .func_name
                .starts_with(|first: char| first.is_ascii_alphabetic());
            let arguments = call.target.as_deref_mut().into_iter();
            for argument in arguments.chain(&mut call.args) {
                rewrite(argument)?;
                if is_function && !spells_name(argument) {
                    wrap(argument);
                }
            }
            if call.func_name == "_+_" {
                wrap(expression);
            }
        }
    }
    Ok(())
}

/// Whether an expression may be the name of a library, as in `optional.of(1)`.
fn spells_name(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Ident(name) => !matches!(name.as_str(), "self" | "oldSelf"),
        _ => false,
    }
}

fn wrap(expression: &mut IdedExpr) {
    let id = expression.id;
    let inner = std::mem::take(expression);
    let call = CallExpr {
        func_name: COUNT.to_owned(),
        target: None,
        args: vec![inner],
    };
    *expression = IdedExpr {
        id,
        expr: Expr::Call(call),
    };
}
