//! Macros: calls that become comprehensions or presence tests.

use crate::{
    ast::{ACCUMULATOR, Comprehension, Element, Expr, Id, Kind, Literal},
    source::Source,
};

pub(super) enum Expansion {
    Expanded(Expr),
    /// It is no macro.
    None(Option<Expr>, Vec<Expr>),
}

/// Name that older expansions used; it must not be overwritten either.
const OLD_ACCUMULATOR: &str = "__result__";
/// Variable of `sortBy`.
const SORT_INPUT: &str = "@__sortBy_input__";
/// Variable of comprehensions that only bind a name.
const UNUSED: &str = "#unused";
/// Inserts an entry into a map.
const INSERT: &str = "cel.@mapInsert";

/// Errors of an argument that should name a variable, of different macros.
const NO_NAME: &str = "argument must be a simple name";
const NO_IDENTIFIER: &str = "argument is not an identifier";

/// Error of an expansion and the node it is about.
type Failed = (Id, String);

pub(super) fn expand(
    source: &mut Source<'_>,
    id: Id,
    function: &str,
    target: Option<Expr>,
    arguments: Vec<Expr>,
) -> Expansion {
    let mut builder = Builder { source, id };
    let count = arguments.len();
    let expanded = match (function, target, count) {
        ("has", None, 1) => builder.has(arguments),
        ("all" | "exists" | "exists_one", Some(range), 2)
        | ("all" | "exists" | "exists_one" | "existsOne", Some(range), 3) => {
            builder.quantifier(function, range, arguments)
        }
        ("map", Some(range), 2 | 3) => builder.map(range, arguments),
        ("filter", Some(range), 2) => builder.filter(range, arguments),
        ("transformList" | "transformMap" | "transformMapEntry", Some(range), 3 | 4) => {
            builder.transform(function, range, arguments)
        }
        ("optMap" | "optFlatMap", Some(operand), 2) => {
            builder.optional(function, operand, arguments)
        }
        ("sortBy", Some(range), 2) => builder.sort_by(range, arguments),
        (_, target, _) => return Expansion::None(target, arguments),
    };
    let expression = expanded.unwrap_or_else(|(about, message)| {
        let position = source.position(about);
        source.error_at(position, message);
        Expr {
            id: source.new_id(position),
            kind: Kind::Invalid,
        }
    });
    source.forget_position(id);
    Expansion::Expanded(expression)
}

/// Parts of expansions; their position is that of the call.
struct Builder<'b, 's> {
    source: &'b mut Source<'s>,
    id: Id,
}

impl Builder<'_, '_> {
    fn node(&mut self, kind: Kind) -> Expr {
        let position = self.source.position(self.id);
        Expr {
            id: self.source.new_id(position),
            kind,
        }
    }

    fn name(&mut self, name: &str) -> Expr {
        self.node(Kind::Ident(name.to_owned()))
    }

    fn accumulator(&mut self) -> Expr {
        self.name(ACCUMULATOR)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(Kind::Literal(literal))
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        let element = |value| Element {
            value,
            is_optional: false,
        };
        self.node(Kind::List(elements.into_iter().map(element).collect()))
    }

    fn call(&mut self, function: &str, arguments: Vec<Expr>) -> Expr {
        self.node(Kind::Call {
            target: None,
            function: function.to_owned(),
            arguments,
        })
    }

    fn member_call(&mut self, function: &str, target: Expr, arguments: Vec<Expr>) -> Expr {
        self.node(Kind::Call {
            target: Some(Box::new(target)),
            function: function.to_owned(),
            arguments,
        })
    }

    fn has(&mut self, arguments: Vec<Expr>) -> Result<Expr, Failed> {
        let mut arguments = arguments.into_iter();
        match arguments.next() {
            Some(Expr {
                kind: Kind::Select { operand, field, .. },
                ..
            }) => Ok(self.node(Kind::Select {
                operand,
                field,
                is_test: true,
            })),
            other => Err((
                other.map_or(self.id, |other| other.id),
                "invalid argument to has() macro".to_owned(),
            )),
        }
    }

    fn quantifier(
        &mut self,
        function: &str,
        range: Expr,
        arguments: Vec<Expr>,
    ) -> Result<Expr, Failed> {
        let count = arguments.len() - 1;
        let (variable, second, rest) = variables(arguments, count, NO_NAME)?;
        let predicate = rest.into_iter().next().unwrap_or(Expr {
            id: self.id,
            kind: Kind::Invalid,
        });
        let (initial, condition, step, result);
        match function {
            "all" => {
                initial = self.literal(Literal::Bool(true));
                let so_far = self.accumulator();
                condition = self.call("@not_strictly_false", vec![so_far]);
                let so_far = self.accumulator();
                step = self.call("_&&_", vec![so_far, predicate]);
                result = self.accumulator();
            }
            "exists" => {
                initial = self.literal(Literal::Bool(false));
                let so_far = self.accumulator();
                let not = self.call("!_", vec![so_far]);
                condition = self.call("@not_strictly_false", vec![not]);
                let so_far = self.accumulator();
                step = self.call("_||_", vec![so_far, predicate]);
                result = self.accumulator();
            }
            _ => {
                initial = self.literal(Literal::Int(0));
                condition = self.literal(Literal::Bool(true));
                let so_far = self.accumulator();
                let one = self.literal(Literal::Int(1));
                let more = self.call("_+_", vec![so_far, one]);
                let same = self.accumulator();
                step = self.call("_?_:_", vec![predicate, more, same]);
                let found = self.accumulator();
                let one = self.literal(Literal::Int(1));
                result = self.call("_==_", vec![found, one]);
            }
        }
        Ok(self.comprehension(Comprehension {
            range,
            variable,
            second,
            accumulator: ACCUMULATOR.to_owned(),
            initial,
            condition,
            step,
            result,
        }))
    }

    fn comprehension(&mut self, comprehension: Comprehension) -> Expr {
        self.node(Kind::Comprehension(Box::new(comprehension)))
    }

    /// A loop that adds to a list or map what `step` computes, where `filter` is true.
    fn collect(
        &mut self,
        range: Expr,
        (variable, second): (String, Option<String>),
        initial: Expr,
        (filter, step): (Option<Expr>, Expr),
    ) -> Expr {
        let condition = self.literal(Literal::Bool(true));
        let step = match filter {
            Some(filter) => {
                let same = self.accumulator();
                self.call("_?_:_", vec![filter, step, same])
            }
            None => step,
        };
        let result = self.accumulator();
        self.comprehension(Comprehension {
            range,
            variable,
            second,
            accumulator: ACCUMULATOR.to_owned(),
            initial,
            condition,
            step,
            result,
        })
    }

    /// Adds an element to the accumulator.
    fn append(&mut self, element: Expr) -> Expr {
        let so_far = self.accumulator();
        let element = self.list(vec![element]);
        self.call("_+_", vec![so_far, element])
    }

    fn map(&mut self, range: Expr, arguments: Vec<Expr>) -> Result<Expr, Failed> {
        let (variable, _, rest) = variables(arguments, 1, NO_IDENTIFIER)?;
        let (filter, transform) = self.filter_and_last(rest);
        let initial = self.list(Vec::new());
        let step = self.append(transform);
        Ok(self.collect(range, (variable, None), initial, (filter, step)))
    }

    fn filter_and_last(&self, rest: Vec<Expr>) -> (Option<Expr>, Expr) {
        let mut rest = rest;
        let last = rest.pop().unwrap_or(Expr {
            id: self.id,
            kind: Kind::Invalid,
        });
        (rest.pop(), last)
    }

    fn filter(&mut self, range: Expr, arguments: Vec<Expr>) -> Result<Expr, Failed> {
        let element = arguments.first().cloned();
        let (variable, _, rest) = variables(arguments, 1, NO_IDENTIFIER)?;
        let (_, filter) = self.filter_and_last(rest);
        let initial = self.list(Vec::new());
        let element = element.unwrap_or(Expr {
            id: self.id,
            kind: Kind::Invalid,
        });
        let step = self.append(element);
        Ok(self.collect(range, (variable, None), initial, (Some(filter), step)))
    }

    fn transform(
        &mut self,
        function: &str,
        range: Expr,
        arguments: Vec<Expr>,
    ) -> Result<Expr, Failed> {
        let (variable, second, rest) = variables(arguments, 2, NO_NAME)?;
        let (filter, transform) = self.filter_and_last(rest);
        let (initial, step) = match function {
            "transformList" => {
                let initial = self.list(Vec::new());
                (initial, self.append(transform))
            }
            _ => {
                let initial = self.node(Kind::Map(Vec::new()));
                let so_far = self.accumulator();
                let arguments = if function == "transformMap" {
                    vec![so_far, self.name(&variable), transform]
                } else {
                    vec![so_far, transform]
                };
                (initial, self.call(INSERT, arguments))
            }
        };
        Ok(self.collect(range, (variable, second), initial, (filter, step)))
    }

    /// A comprehension over nothing, whose accumulator is `value` under a name.
    fn bind(&mut self, name: &str, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.name(name);
        self.comprehension(Comprehension {
            range,
            variable: UNUSED.to_owned(),
            second: None,
            accumulator: name.to_owned(),
            initial: value,
            condition,
            step,
            result,
        })
    }

    fn optional(
        &mut self,
        function: &str,
        operand: Expr,
        arguments: Vec<Expr>,
    ) -> Result<Expr, Failed> {
        let mut arguments = arguments.into_iter();
        let (Some(variable), Some(transform)) = (arguments.next(), arguments.next()) else {
            return Err((self.id, format!("{function}() needs two arguments")));
        };
        let Kind::Ident(name) = &variable.kind else {
            let message = format!("{function}() variable name must be a simple identifier");
            return Err((variable.id, message));
        };
        let copied = self.copy(&operand);
        let has_value = self.member_call("hasValue", operand, Vec::new());
        let value = self.member_call("value", copied, Vec::new());
        let bound = self.bind(name, value, transform);
        let some = match function {
            "optMap" => self.call("optional.of", vec![bound]),
            _ => bound,
        };
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![has_value, some, none]))
    }

    fn sort_by(&mut self, range: Expr, arguments: Vec<Expr>) -> Result<Expr, Failed> {
        if !matches!(
            range.kind,
            Kind::List(_)
                | Kind::Select { .. }
                | Kind::Ident(_)
                | Kind::Comprehension(_)
                | Kind::Call { .. }
        ) {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err((range.id, message.to_owned()));
        }
        let input = self.name(SORT_INPUT);
        let keys = self.map(input, arguments)?;
        let input = self.name(SORT_INPUT);
        let sorted = self.member_call("@sortByAssociatedKeys", input, vec![keys]);
        Ok(self.bind(SORT_INPUT, range, sorted))
    }

    /// The same expression with identifiers of its own.
    fn copy(&mut self, expression: &Expr) -> Expr {
        let mut copy = expression.clone();
        self.renew(&mut copy);
        copy
    }

    fn renew(&mut self, expression: &mut Expr) {
        let position = self.source.position(expression.id);
        expression.id = self.source.new_id(position);
        match &mut expression.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Invalid => {}
            Kind::Select { operand, .. } => self.renew(operand),
            Kind::Call {
                target, arguments, ..
            } => {
                for part in target.as_deref_mut().into_iter().chain(arguments) {
                    self.renew(part);
                }
            }
            Kind::List(elements) => {
                for element in elements {
                    self.renew(&mut element.value);
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    self.renew(&mut entry.key);
                    self.renew(&mut entry.value);
                }
            }
            Kind::Message { fields, .. } => {
                for field in fields {
                    self.renew(&mut field.value);
                }
            }
            Kind::Comprehension(inner) => {
                for part in [
                    &mut inner.range,
                    &mut inner.initial,
                    &mut inner.condition,
                    &mut inner.step,
                    &mut inner.result,
                ] {
                    self.renew(part);
                }
            }
        }
    }
}

/// The first one or two arguments as names of variables, and the others.
fn variables(
    arguments: Vec<Expr>,
    count: usize,
    wrong: &str,
) -> Result<(String, Option<String>, Vec<Expr>), Failed> {
    let mut names: Vec<(Id, String)> = Vec::new();
    let mut rest = Vec::new();
    for argument in arguments {
        if names.len() == count {
            rest.push(argument);
            continue;
        }
        match argument.kind {
            Kind::Ident(name) if !name.starts_with('.') => names.push((argument.id, name)),
            _ => return Err((argument.id, wrong.to_owned())),
        }
    }
    if let [(_, first), (id, second)] = names.as_slice()
        && first == second
    {
        return Err((*id, format!("duplicate variable name: {first}")));
    }
    for (id, name) in &names {
        if [ACCUMULATOR, OLD_ACCUMULATOR].contains(&name.as_str()) {
            let message = "iteration variable overwrites accumulator variable";
            return Err((*id, message.to_owned()));
        }
    }
    let mut names = names.into_iter().map(|(_, name)| name);
    let first = names.next().unwrap_or_default();
    Ok((first, names.next(), rest))
}
