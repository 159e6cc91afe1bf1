//! A bound on what the rules of one object may cost.
//!
//! The CEL library evaluates whatever it is given, for as long as it takes. So every rule is
//! rewritten when it is compiled: each turn of a loop, each argument of a function and each text or
//! list that is put together passes through a function that counts it, by its size, and fails once
//! the object's budget is used up. What is left between two counts takes time in proportion to what
//! was counted. Rules that are too long or too deep for any stack are not compiled; the parser, and the
//! evaluation of rules that are deeper than usual, have a thread with a large stack.

use std::{cell::Cell, thread};

use kube_cel::cel::{
    Context, ExecutionError, ParseErrors, Program, Value,
    common::ast::{CallExpr, EntryExpr, Expr, IdedExpr},
    parser::Expression,
};

/// What the rules of one object may cost: the API server has the same figure, in units of its own.
const BUDGET: u64 = 10_000_000;
/// How long a rule may be, in bytes.
const LONGEST_RULE: usize = 32 * 1024;
/// How many operators, calls and selections a rule may have: each may be one level of depth for
/// the parser.
const MOST_OPERATORS: usize = 1_000;
/// How deep a rule may be once it is parsed: the API server has the same limit.
const DEEPEST_RULE: usize = 250;
/// How deep a rule may be to be evaluated on the stack of whoever asks: without optimization, the
/// library takes more than 32 KiB for a level.
const SHALLOW: usize = 24;
/// What a rule as deep as it may be needs, to be parsed or evaluated. It is taken only as needed.
const LARGE_STACK: usize = 256 * 1024 * 1024;
/// The function that counts; no rule can write its name.
pub(super) const COUNT: &str = "@count";
/// The function that counts the turns of loops.
pub(super) const TURN: &str = "@turn";
/// What a turn costs, besides what is counted in it.
const COST_OF_TURN: u64 = 50;
/// What an item of a list or map costs: the library copies it.
const COST_OF_ITEM: u64 = 10;
/// The operator that puts texts and lists together.
const SUM: &str = "_+_";

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
    spend(size(&value)).map(|()| value)
}

/// Counts a turn of a loop, and gives the condition to go on back.
pub(super) fn count_turn(condition: Value) -> Result<Value, ExecutionError> {
    spend(COST_OF_TURN).map(|()| condition)
}

fn spend(cost: u64) -> Result<(), ExecutionError> {
    let left = LEFT.get().saturating_sub(cost);
    LEFT.set(left);
    if left == 0 {
        return Err(ExecutionError::function_error(
            COUNT,
            "actual cost limit exceeded",
        ));
    }
    Ok(())
}

/// How large a value is, with all that it holds. Values are as deep as JSON may be.
fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text.len() as u64 / 16,
        Value::Bytes(bytes) => 1 + bytes.len() as u64 / 16,
        Value::List(items) => {
            1 + items
                .iter()
                .map(|item| COST_OF_ITEM + size(item))
                .sum::<u64>()
        }
        Value::Map(map) => {
            1 + map
                .map
                .values()
                .map(|value| COST_OF_ITEM + size(value))
                .sum::<u64>()
        }
        _ => 1,
    }
}

/// Whether a rule is small enough to be parsed and evaluated by functions that call themselves.
fn bounded_source(source: &str) -> Result<(), &'static str> {
    if source.len() > LONGEST_RULE {
        return Err("is longer than 32 KiB");
    }
    let deepening = source
        .bytes()
        .filter(|byte| b"+-*/%<>=!&|?.,[({".contains(byte))
        .count();
    if deepening > MOST_OPERATORS {
        return Err("has more than 1000 operators");
    }
    Ok(())
}

/// A rule that was parsed, and counts what it costs.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) plain: Expression,
    with_counts: Expression,
    depth: usize,
    pub(super) uses_old_self: bool,
}

impl Counted {
    pub(super) fn evaluate(&self, scope: &Context<'_>) -> Result<Value, ExecutionError> {
        if self.depth <= SHALLOW {
            return Value::resolve(&self.with_counts, scope);
        }
        let before = LEFT.get();
        let evaluate = || {
            LEFT.set(before);
            let value = Value::resolve(&self.with_counts, scope);
            (value, LEFT.get())
        };
        match on_large_stack(evaluate) {
            Some((value, left)) => {
                LEFT.set(left);
                value
            }
            None => Err(ExecutionError::function_error(
                COUNT,
                "there is no room to evaluate the rule",
            )),
        }
    }
}

/// Does something in a thread with a large stack, if there can be one.
fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let large = thread::Builder::new().stack_size(LARGE_STACK);
        large.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

/// Why a rule cannot be used.
pub(super) enum Unusable {
    /// It is too large.
    TooLarge(&'static str),
    /// It cannot be parsed.
    Unparsable(ParseErrors),
    /// It has something that is not evaluated.
    Unsupported(&'static str),
}

/// Parses a rule.
pub(super) fn parse(source: &str) -> Result<Counted, Unusable> {
    bounded_source(source).map_err(Unusable::TooLarge)?;
    let parse = || {
        let program = Program::compile(source).map_err(Unusable::Unparsable)?;
        let plain = program.expression().clone();
        let mut with_counts = plain.clone();
        rewrite(&mut with_counts, 0)?;
        let uses_old_self = program.references().has_variable("oldSelf");
        Ok(Counted {
            plain,
            depth: depth_of(&with_counts),
            with_counts,
            uses_old_self,
        })
    };
    on_large_stack(parse).unwrap_or(Err(Unusable::TooLarge(
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

fn rewrite(expression: &mut IdedExpr, depth: usize) -> Result<(), Unusable> {
    const MESSAGE: Unusable = Unusable::Unsupported("messages cannot be constructed in rules");
    if depth > DEEPEST_RULE {
        return Err(Unusable::TooLarge("is more than 250 levels deep"));
    }
    let depth = depth + 1;
    match &mut expression.expr {
        // The library does not evaluate these, it panics.
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
            wrap(&mut comprehension.loop_cond, TURN);
        }
        Expr::Call(call) => {
            let is_function = call
                .func_name
                .starts_with(|first: char| first.is_ascii_alphabetic());
            let is_sum = call.func_name == SUM;
            let arguments = call.target.as_deref_mut().into_iter();
            for argument in arguments.chain(&mut call.args) {
                rewrite(argument, depth)?;
                if is_function && !spells_name(argument) {
                    wrap(argument, COUNT);
                }
                // A sum is counted as a whole: its parts are no larger.
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

/// Whether an expression may be the name of a library, as in `optional.of(1)`.
fn spells_name(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Ident(name) => !matches!(name.as_str(), "self" | "oldSelf"),
        _ => false,
    }
}

/// Takes the count away from a part of a sum that is a sum itself.
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
