//! The Common Expression Language as kube-apiserver has it.
//!
//! Guaranteed:
//! - an expression that compiles is well-typed, and uses only functions that the server has;
//! - errors of compilation and evaluation have the server's words;
//! - the estimated cost is the server's, and evaluation stops at a given cost;
//! - neither a source nor data cause a panic or use up the stack.
//!
//! The reference is release 1.36, with the libraries that it gives to new expressions.

#![allow(
    clippy::enum_variant_names,
    clippy::match_same_arms,
    clippy::option_option,
    clippy::similar_names,
    clippy::single_match_else,
    clippy::too_many_lines,
    clippy::unnecessary_wraps,
    reason = "tables of functions, types and steps, whose entries have one form"
)]

mod ast;
mod check;
mod data_type;
mod declarations;
mod estimate;
mod evaluate;
mod functions;
mod parser;
mod plan;
mod source;
mod stack;
mod types;
mod value;

use std::sync::Arc;

use ast::Expr;
use check::Checked;
pub use data_type::{DataType, FieldType, ListSemantics, escape};
use evaluate::Machine;
pub use evaluate::TOO_EXPENSIVE;
pub use functions::{Environment, patterns::compile as compile_pattern, url::parse as parse_uri};
use plan::Step;
use source::Source;
use types::Type;
pub use value::{Error, NamedFormat, Text, Value};

/// Name of the type of `self`, of which other names are made. On a server it ends with a random
/// number.
const SELF_TYPE: &str = "selfType1";

/// A variable of an expression.
#[derive(Clone, Debug)]
pub struct Variable<'v> {
    pub name: &'v str,
    pub type_: VariableType,
}

#[derive(Clone, Debug)]
pub enum VariableType {
    Data(Arc<DataType>),
    /// An optional value with data.
    Optional(Arc<DataType>),
    /// Any value, whose type is known when it is evaluated.
    Dyn,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    step: Step,
    depth: usize,
    output: Type,
    variables: Vec<String>,
    used: Vec<String>,
    /// Most that the server expects it to cost.
    max_cost: u64,
    environment: Environment,
}

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// It is not well-formed or not well-typed.
    Invalid(String),
    /// A literal in it cannot be evaluated.
    Instantiation(String),
}

impl Program {
    /// Compiles an expression with variables; sizes are those of the first variable with data.
    pub fn compile(
        text: &str,
        variables: &[Variable<'_>],
        environment: Environment,
    ) -> Result<Self, CompileError> {
        stack::with_room(stack::deepening(text), || {
            Self::compile_here(text, variables, environment)
        })
        .unwrap_or_else(|| {
            let message = "there is no room to compile the expression";
            Err(CompileError::Invalid(message.to_owned()))
        })
    }

    fn compile_here(
        text: &str,
        variables: &[Variable<'_>],
        environment: Environment,
    ) -> Result<Self, CompileError> {
        let typed: Vec<(&str, Type)> = variables
            .iter()
            .map(|variable| {
                let type_ = match &variable.type_ {
                    VariableType::Data(data) => Type::of(data, SELF_TYPE),
                    VariableType::Optional(data) => Type::optional(Type::of(data, SELF_TYPE)),
                    VariableType::Dyn => Type::Dyn,
                };
                (variable.name, type_)
            })
            .collect();
        let (expression, checked) = parse_and_check(text, &typed)?;
        let root = variables.iter().find_map(|variable| match &variable.type_ {
            VariableType::Data(data) | VariableType::Optional(data) => Some(Arc::clone(data)),
            VariableType::Dyn => None,
        });
        let root = root.unwrap_or_else(|| Arc::new(DataType::any()));
        let names: Vec<&str> = variables.iter().map(|variable| variable.name).collect();
        let step = plan::plan(&expression, &checked, &names, &environment)
            .map_err(|error| CompileError::Instantiation(error.to_string()))?;
        Ok(Self {
            step,
            depth: expression.depth(),
            output: checked.type_of(expression.id).clone(),
            variables: names.into_iter().map(str::to_owned).collect(),
            max_cost: estimate::estimate(&expression, &checked, &root).max,
            used: checked.variables,
            environment,
        })
    }

    pub fn is_bool(&self) -> bool {
        self.output == Type::Bool
    }

    pub fn is_string(&self) -> bool {
        self.output == Type::String
    }

    pub fn uses(&self, variable: &str) -> bool {
        self.used.iter().any(|used| used == variable)
    }

    pub fn max_cost(&self) -> u64 {
        self.max_cost
    }

    /// Evaluates the expression with values of its variables, in the order in which they were
    /// declared. The cost is returned also of an evaluation that fails; it is above `limit` if that
    /// is why.
    pub fn evaluate<'a>(
        &self,
        values: Vec<Result<Value<'a>, Error>>,
        limit: u64,
    ) -> (Result<Value<'a>, Error>, u64) {
        debug_assert_eq!(values.len(), self.variables.len());
        let evaluate = || {
            let mut machine = Machine::new(values, limit, &self.environment);
            let result = machine.run(&self.step);
            (result, machine.cost)
        };
        stack::with_room(self.depth, evaluate).unwrap_or_else(|| {
            let error = Error::new("there is no room to evaluate the expression");
            (Err(error), 0)
        })
    }
}

fn parse_and_check(
    text: &str,
    variables: &[(&str, Type)],
) -> Result<(Expr, Checked), CompileError> {
    let mut source = Source::new(text);
    let mut expression = parser::parse(&mut source, text);
    if source.has_errors() {
        return Err(CompileError::Invalid(source.report()));
    }
    let checked = check::check(&mut source, &mut expression, variables);
    if source.has_errors() {
        return Err(CompileError::Invalid(source.report()));
    }
    Ok((expression, checked))
}
