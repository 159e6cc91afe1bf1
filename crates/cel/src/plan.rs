//! Steps that evaluate a checked expression.

use std::collections::HashMap;

use crate::{
    ast::{ACCUMULATOR, Comprehension, Expr, Kind, Literal},
    check::{Checked, type_named, value},
    estimate::is_binding,
    evaluate::Tariff,
    functions::{self, Environment, Function, conversions::CONVERSIONS, patterns, time},
    value::{Error, Value},
};

/// A step; variables are places in a stack.
#[derive(Debug)]
pub(crate) enum Step {
    Constant(Value<'static>),
    Variable(usize),
    Select {
        operand: Box<Step>,
        field: String,
    },
    /// Whether a field is present.
    Has {
        operand: Box<Step>,
        field: String,
    },
    OptionalSelect {
        operand: Box<Step>,
        field: String,
    },
    Index {
        operand: Box<Step>,
        index: Box<Step>,
        is_optional: bool,
    },
    And(Box<[Step; 2]>),
    Or(Box<[Step; 2]>),
    Conditional(Box<[Step; 3]>),
    NotFalse(Box<Step>),
    /// `or` and `orValue` evaluate their argument only if it is needed.
    Alternative {
        operand: Box<Step>,
        other: Box<Step>,
        is_value: bool,
    },
    Call {
        function: Function,
        tariff: Tariff,
        arguments: Vec<Step>,
    },
    List(Vec<(Step, bool)>),
    Map(Vec<(Step, Step, bool)>),
    Message {
        name: String,
        fields: Vec<(String, Step)>,
    },
    /// Adds an item to the accumulator.
    Append {
        accumulator: usize,
        item: Box<Step>,
    },
    /// Adds an entry to the accumulator.
    Insert {
        accumulator: usize,
        key: Box<Step>,
        value: Box<Step>,
    },
    Loop(Box<Loop>),
    /// Names a value.
    Bind {
        value: Box<Step>,
        result: Box<Step>,
    },
    Fail(String),
}

#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) range: Step,
    pub(crate) has_second: bool,
    pub(crate) initial: Step,
    pub(crate) condition: Step,
    pub(crate) step: Step,
    pub(crate) result: Step,
}

/// Plans an expression; the error says why a literal cannot be evaluated.
pub(crate) fn plan(
    expression: &Expr,
    checked: &Checked,
    variables: &[&str],
    environment: &Environment,
) -> Result<Step, Error> {
    let mut planner = Planner {
        checked,
        environment,
        places: HashMap::new(),
        height: 0,
    };
    for name in variables {
        planner.declare(name);
    }
    planner.step(expression)
}

struct Planner<'p> {
    checked: &'p Checked,
    environment: &'p Environment,
    places: HashMap<String, Vec<usize>>,
    height: usize,
}

impl Planner<'_> {
    fn declare(&mut self, name: &str) -> usize {
        let place = self.height;
        self.places.entry(name.to_owned()).or_default().push(place);
        self.height += 1;
        place
    }

    fn forget(&mut self, name: &str) {
        if let Some(places) = self.places.get_mut(name) {
            places.pop();
        }
        self.height -= 1;
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name)?.last().copied()
    }

    fn boxed(&mut self, expression: &Expr) -> Result<Box<Step>, Error> {
        self.step(expression).map(Box::new)
    }

    fn step(&mut self, expression: &Expr) -> Result<Step, Error> {
        Ok(match &expression.kind {
            Kind::Literal(literal) => Step::Constant(value(literal)),
            Kind::Ident(name) => match (self.place(name), type_named(name)) {
                (Some(place), _) => Step::Variable(place),
                (None, Some(type_)) => Step::Constant(Value::of_type(&type_)),
                (None, None) => Step::Fail(format!("no such attribute(s): {name}")),
            },
            Kind::Select {
                operand,
                field,
                is_test,
            } => {
                let operand = self.boxed(operand)?;
                let field = field.clone();
                if *is_test {
                    Step::Has { operand, field }
                } else {
                    Step::Select { operand, field }
                }
            }
            Kind::Call {
                target,
                function,
                arguments,
            } => self.call(expression, target.as_deref(), function, arguments)?,
            Kind::List(elements) => {
                let mut steps = Vec::with_capacity(elements.len());
                for element in elements {
                    steps.push((self.step(&element.value)?, element.is_optional));
                }
                Step::List(steps)
            }
            Kind::Map(entries) => {
                let mut steps = Vec::with_capacity(entries.len());
                for entry in entries {
                    let key = self.step(&entry.key)?;
                    steps.push((key, self.step(&entry.value)?, entry.is_optional));
                }
                Step::Map(steps)
            }
            Kind::Message { name, fields } => {
                let mut steps = Vec::with_capacity(fields.len());
                for field in fields {
                    steps.push((field.name.clone(), self.step(&field.value)?));
                }
                Step::Message {
                    name: name.trim_start_matches('.').to_owned(),
                    fields: steps,
                }
            }
            Kind::Comprehension(inner) => self.comprehension(inner)?,
            Kind::Invalid => Step::Fail("the expression is invalid".to_owned()),
        })
    }

    fn comprehension(&mut self, inner: &Comprehension) -> Result<Step, Error> {
        if is_binding(inner) {
            let value = self.boxed(&inner.initial)?;
            self.declare(&inner.accumulator);
            let result = self.boxed(&inner.result)?;
            self.forget(&inner.accumulator);
            return Ok(Step::Bind { value, result });
        }
        let range = self.step(&inner.range)?;
        let initial = self.step(&inner.initial)?;
        self.declare(&inner.accumulator);
        self.declare(&inner.variable);
        if let Some(second) = &inner.second {
            self.declare(second);
        }
        let condition = self.step(&inner.condition)?;
        let step = self.step(&inner.step)?;
        if let Some(second) = &inner.second {
            self.forget(second);
        }
        self.forget(&inner.variable);
        let result = self.step(&inner.result)?;
        self.forget(&inner.accumulator);
        Ok(Step::Loop(Box::new(Loop {
            range,
            has_second: inner.second.is_some(),
            initial,
            condition,
            step,
            result,
        })))
    }

    fn call(
        &mut self,
        call: &Expr,
        target: Option<&Expr>,
        function: &str,
        arguments: &[Expr],
    ) -> Result<Step, Error> {
        if let Some(step) = self.special(target, function, arguments)? {
            return Ok(step);
        }
        let mut steps = Vec::with_capacity(arguments.len() + 1);
        for part in target.into_iter().chain(arguments) {
            steps.push(self.step(part)?);
        }
        if let Some(format) = function
            .strip_prefix("format.")
            .filter(|name| *name != "named")
        {
            let format = functions::format_named(self.environment, format);
            return Ok(match format {
                Some(format) => Step::Constant(format),
                None => Step::Fail(format!("no such overload: {function}")),
            });
        }
        let Some(implementation) = functions::implementation(function) else {
            return Ok(Step::Fail(format!("no such overload: {function}")));
        };
        if CONVERSIONS.contains(&function)
            && let [Step::Constant(argument)] = steps.as_slice()
        {
            let argument = argument.clone();
            return implementation(self.environment, &[argument]).map(Step::Constant);
        }
        if matches!(function, "find" | "findAll")
            && let Some(Step::Constant(Value::String(pattern))) = steps.get(1)
        {
            patterns::compiled(pattern)?;
        }
        Ok(Step::Call {
            function: implementation,
            tariff: Tariff::of(function, self.checked.overloads(call.id)),
            arguments: steps,
        })
    }

    /// Operators that do not evaluate all their arguments, and additions to an accumulator.
    fn special(
        &mut self,
        target: Option<&Expr>,
        function: &str,
        arguments: &[Expr],
    ) -> Result<Option<Step>, Error> {
        Ok(Some(match (function, target, arguments) {
            ("_&&_", None, [one, other]) => {
                Step::And(Box::new([self.step(one)?, self.step(other)?]))
            }
            ("_||_", None, [one, other]) => {
                Step::Or(Box::new([self.step(one)?, self.step(other)?]))
            }
            ("_?_:_", None, [condition, yes, no]) => Step::Conditional(Box::new([
                self.step(condition)?,
                self.step(yes)?,
                self.step(no)?,
            ])),
            ("@not_strictly_false", None, [argument]) => Step::NotFalse(self.boxed(argument)?),
            ("_?._", None, [operand, field]) => {
                let Some(Literal::String(field)) = field.literal() else {
                    return Ok(None);
                };
                Step::OptionalSelect {
                    operand: self.boxed(operand)?,
                    field: field.clone(),
                }
            }
            ("_[_]" | "_[?_]", None, [operand, index]) => Step::Index {
                operand: self.boxed(operand)?,
                index: self.boxed(index)?,
                is_optional: function == "_[?_]",
            },
            ("or" | "orValue", Some(operand), [other]) => Step::Alternative {
                operand: self.boxed(operand)?,
                other: self.boxed(other)?,
                is_value: function == "orValue",
            },
            ("_+_", None, [one, other]) => {
                let (Some(accumulator), Kind::List(elements)) =
                    (self.accumulator(one), &other.kind)
                else {
                    return Ok(None);
                };
                match elements.as_slice() {
                    [element] if !element.is_optional => Step::Append {
                        accumulator,
                        item: self.boxed(&element.value)?,
                    },
                    _ => return Ok(None),
                }
            }
            ("cel.@mapInsert", None, [map, key, value]) => match self.accumulator(map) {
                Some(accumulator) => Step::Insert {
                    accumulator,
                    key: self.boxed(key)?,
                    value: self.boxed(value)?,
                },
                None => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    fn accumulator(&self, expression: &Expr) -> Option<usize> {
        match &expression.kind {
            Kind::Ident(name) if name == ACCUMULATOR => self.place(name),
            _ => None,
        }
    }
}

impl Step {
    /// A message of time, of its fields.
    pub(crate) fn message(
        name: &str,
        fields: &[(String, Value<'_>)],
    ) -> Result<Value<'static>, Error> {
        let number = |name: &str| {
            fields
                .iter()
                .find_map(|(field, value)| match value {
                    Value::Int(number) if field == name => Some(*number),
                    _ => None,
                })
                .unwrap_or(0)
        };
        time::of_message(name, number("seconds"), number("nanos"))
    }
}
