//! Cost limit of CEL rules.
//!
//! The CEL library has no limit of its own, so every rule is rewritten when it is compiled: each
//! loop iteration, function argument and concatenation passes through a function that adds its size
//! to the cost and fails once the budget of the object is exhausted. Work between two counts is
//! proportional to what was counted.
//!
//! Rules that are too long or too deep are not compiled. The parser, and the evaluation of deep
//! rules, run on a thread with a large stack.

use std::{cell::Cell, thread};

use kube_cel::cel::{
    Context, ExecutionError, ParseErrors, Program, Value,
    common::ast::{CallExpr, EntryExpr, Expr, IdedExpr},
    parser::Expression,
};

/// Budget per object: the figure of kube-apiserver, in other units.
const BUDGET: u64 = 10_000_000;
/// Bytes of source.
const MAX_RULE_BYTES: usize = 32 * 1024;
/// Operators, calls and selections; each may be a level of recursion in the parser.
const MAX_OPERATORS: usize = 1_000;
/// Depth of the syntax tree, as in kube-apiserver.
const MAX_RULE_DEPTH: usize = 250;
/// Depth up to which rules run on the caller's stack: without optimization the library needs more
/// than 32 KiB per level.
const MAX_INLINE_DEPTH: usize = 24;
/// Stack for the deepest rule. Untouched pages cost no memory.
const LARGE_STACK: usize = 256 * 1024 * 1024;
/// Counting function; rules cannot spell its name.
pub(super) const COUNT: &str = "@count";
/// Counting function for loop iterations.
pub(super) const COUNT_ITERATION: &str = "@iteration";
/// Cost of an iteration besides what is counted in it.
const COST_PER_ITERATION: u64 = 50;
/// Cost of a list or map item, which the library copies.
const COST_PER_ITEM: u64 = 10;
/// Operator that concatenates strings and lists.
const SUM: &str = "_+_";

thread_local! {
    static REMAINING: Cell<u64> = const { Cell::new(0) };
}

/// Resets the budget for an object.
pub(super) fn start() {
    REMAINING.set(BUDGET);
}

pub(super) fn is_exhausted() -> bool {
    REMAINING.get() == 0
}

/// Counts a value and returns it.
pub(super) fn count(value: Value) -> Result<Value, ExecutionError> {
    spend(size(&value)).map(|()| value)
}

/// Counts an iteration and returns the loop condition.
pub(super) fn count_iteration(condition: Value) -> Result<Value, ExecutionError> {
    spend(COST_PER_ITERATION).map(|()| condition)
}

fn spend(cost: u64) -> Result<(), ExecutionError> {
    let left = REMAINING.get().saturating_sub(cost);
    REMAINING.set(left);
    if left == 0 {
        return Err(ExecutionError::function_error(
            COUNT,
            "actual cost limit exceeded",
        ));
    }
    Ok(())
}

/// Size of a value with its content. Recursion is bounded by the depth of JSON.
fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text.len() as u64 / 16,
        Value::Bytes(bytes) => 1 + bytes.len() as u64 / 16,
        Value::List(items) => {
            1 + items
                .iter()
                .map(|item| COST_PER_ITEM + size(item))
                .sum::<u64>()
        }
        Value::Map(map) => {
            1 + map
                .map
                .values()
                .map(|value| COST_PER_ITEM + size(value))
                .sum::<u64>()
        }
        _ => 1,
    }
}

/// Checks that recursive parsing and evaluation stay within the stack.
fn bounded_source(source: &str) -> Result<(), &'static str> {
    if source.len() > MAX_RULE_BYTES {
        return Err("is longer than 32 KiB");
    }
    let deepening = source
        .bytes()
        .filter(|byte| b"+-*/%<>=!&|?.,[({".contains(byte))
        .count();
    if deepening > MAX_OPERATORS {
        return Err("has more than 1000 operators");
    }
    Ok(())
}

/// A parsed rule with cost counting.
#[derive(Debug)]
pub(super) struct MeteredRule {
    pub(super) plain: Expression,
    with_counts: Expression,
    depth: usize,
    pub(super) uses_old_self: bool,
}

impl MeteredRule {
    pub(super) fn evaluate(&self, scope: &Context<'_>) -> Result<Value, ExecutionError> {
        if self.depth <= MAX_INLINE_DEPTH {
            return Value::resolve(&self.with_counts, scope);
        }
        let before = REMAINING.get();
        let evaluate = || {
            REMAINING.set(before);
            let value = Value::resolve(&self.with_counts, scope);
            (value, REMAINING.get())
        };
        match on_large_stack(evaluate) {
            Some((value, left)) => {
                REMAINING.set(left);
                value
            }
            None => Err(ExecutionError::function_error(
                COUNT,
                "there is no room to evaluate the rule",
            )),
        }
    }
}

/// Runs `work` on a thread with a large stack, if one can be started.
fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let large = thread::Builder::new().stack_size(LARGE_STACK);
        large.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

pub(super) enum InvalidRule {
    TooLarge(&'static str),
    Unparsable(ParseErrors),
    /// It uses a feature that is not supported.
    Unsupported(&'static str),
}

pub(super) fn parse(source: &str) -> Result<MeteredRule, InvalidRule> {
    bounded_source(source).map_err(InvalidRule::TooLarge)?;
    let parse = || {
        let program = Program::compile(source).map_err(InvalidRule::Unparsable)?;
        let plain = program.expression().clone();
        let mut with_counts = plain.clone();
        rewrite(&mut with_counts, 0)?;
        let uses_old_self = program.references().has_variable("oldSelf");
        Ok(MeteredRule {
            plain,
            depth: depth_of(&with_counts),
            with_counts,
            uses_old_self,
        })
    };
    on_large_stack(parse).unwrap_or(Err(InvalidRule::TooLarge(
        "cannot be parsed: there is no room",
    )))
}

fn depth_of(expression: &IdedExpr) -> usize {
    let deepest =
        |inner: &mut dyn Iterator<Item = &IdedExpr>| inner.map(depth_of).max().unwrap_or(0);
    let below = match &expression.expr {
        Expr::Select(select) => depth_of(&select.operand),
        Expr::List(list) => deepest(&mut list.elements.iter()),
        Expr::Map(map) => map
            .entries
            .iter()
            .map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => depth_of(&entry.key).max(depth_of(&entry.value)),
                EntryExpr::StructField(_) => 0,
            })
            .max()
            .unwrap_or(0),
        Expr::Comprehension(comprehension) => deepest(
            &mut [
                &comprehension.iter_range,
                &comprehension.accu_init,
                &comprehension.loop_cond,
                &comprehension.loop_step,
                &comprehension.result,
            ]
            .into_iter(),
        ),
        Expr::Call(call) => deepest(&mut call.target.as_deref().into_iter().chain(&call.args)),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => 0,
    };
    below + 1
}

fn rewrite(expression: &mut IdedExpr, depth: usize) -> Result<(), InvalidRule> {
    const MESSAGE: InvalidRule =
        InvalidRule::Unsupported("messages cannot be constructed in rules");
    if depth > MAX_RULE_DEPTH {
        return Err(InvalidRule::TooLarge("is more than 250 levels deep"));
    }
    let depth = depth + 1;
    match &mut expression.expr {
        // The library panics on these.
        Expr::Struct(_) | Expr::Unspecified => {
            return Err(MESSAGE);
        }
        Expr::Ident(_) | Expr::Literal(_) => {}
        Expr::Select(select) => rewrite(&mut select.operand, depth)?,
        Expr::List(list) => {
            for element in &mut list.elements {
                rewrite(element, depth)?;
            }
        }
        Expr::Map(map) => {
            for entry in &mut map.entries {
                match &mut entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        rewrite(&mut entry.key, depth)?;
                        rewrite(&mut entry.value, depth)?;
                    }
                    EntryExpr::StructField(_) => {
                        return Err(MESSAGE);
                    }
                }
            }
        }
        Expr::Comprehension(comprehension) => {
            rewrite(&mut comprehension.iter_range, depth)?;
            rewrite(&mut comprehension.accu_init, depth)?;
            rewrite(&mut comprehension.loop_step, depth)?;
            rewrite(&mut comprehension.result, depth)?;
            wrap(&mut comprehension.loop_cond, COUNT_ITERATION);
        }
        Expr::Call(call) => {
            let is_function = call
                .func_name
                .starts_with(|first: char| first.is_ascii_alphabetic());
            let is_sum = call.func_name == SUM;
            let arguments = call.target.as_deref_mut().into_iter();
            for argument in arguments.chain(&mut call.args) {
                rewrite(argument, depth)?;
                if is_function && !is_qualified_name(argument) {
                    wrap(argument, COUNT);
                }
                // A concatenation is counted as a whole: its parts are not larger.
                if is_sum {
                    unwrap_sum(argument);
                }
            }
            if is_sum {
                wrap(expression, COUNT);
            }
        }
    }
    Ok(())
}

/// Whether an expression may be a library name, as in `optional.of(1)`.
fn is_qualified_name(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Ident(name) => !matches!(name.as_str(), "self" | "oldSelf"),
        _ => false,
    }
}

/// Removes the count from a nested concatenation.
fn unwrap_sum(expression: &mut IdedExpr) {
    let Expr::Call(call) = &mut expression.expr else {
        return;
    };
    let is_sum =
        |argument: &IdedExpr| matches!(&argument.expr, Expr::Call(call) if call.func_name == SUM);
    if call.func_name == COUNT
        && call.args.first().is_some_and(is_sum)
        && let Some(inner) = call.args.pop()
    {
        *expression = inner;
    }
}

fn wrap(expression: &mut IdedExpr, function: &str) {
    let id = expression.id;
    let inner = std::mem::take(expression);
    let call = CallExpr {
        func_name: function.to_owned(),
        target: None,
        args: vec![inner],
    };
    *expression = IdedExpr {
        id,
        expr: Expr::Call(call),
    };
}
