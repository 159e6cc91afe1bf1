//! Checks of literals after types are known: durations, points in time, patterns, formats, and lists
//! and maps of one type.

use super::Checked;
use crate::{
    ast::{Expr, Id, Kind, Literal},
    functions::{
        self,
        format::{self, Problem},
        patterns,
    },
    source::Source,
    types::Type,
    value::Value,
};

pub(super) fn validate(source: &mut Source<'_>, expression: &Expr, checked: &Checked) {
    let mut found: Vec<(Id, String)> = Vec::new();
    expression.walk(&mut |node| {
        if let Kind::Call {
            target,
            function,
            arguments,
        } = &node.kind
        {
            if let Some(argument) = arguments.first()
                && let Some(literal) = argument.literal()
                && is_invalid(function, literal)
            {
                found.push((argument.id, format!("invalid {function} argument")));
            }
            if let (Some(target), [arguments]) = (target, arguments.as_slice())
                && function == "format"
                && let Some(Literal::String(text)) = target.literal()
                && let Kind::List(_) = &arguments.kind
            {
                found.extend(check_format(node, text, arguments, checked));
            }
        }
    });
    check_homogeneous(expression, checked, &mut found);
    for (id, message) in found {
        source.error(id, message);
    }
}

fn is_invalid(function: &str, literal: &Literal) -> bool {
    match (function, literal) {
        ("matches", Literal::String(pattern)) => patterns::compiled(pattern).is_err(),
        ("duration" | "timestamp", literal) => {
            // Conversions need nothing of the environment.
            let environment = functions::Environment { formats: &[] };
            functions::implementation(function)
                .is_some_and(|convert| convert(&environment, &[value(literal)]).is_err())
        }
        _ => false,
    }
}

/// The value of a literal.
pub(crate) fn value(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(value) => Value::text(value.as_str()),
        Literal::Bytes(value) => Value::Bytes(value.as_slice().into()),
    }
}

/// Items of a list have one type, even where one of them is `dyn`, except in arguments of `format`.
fn check_homogeneous(expression: &Expr, checked: &Checked, found: &mut Vec<(Id, String)>) {
    let mut exempt: Vec<Id> = Vec::new();
    expression.walk(&mut |node| {
        if matches!(&node.kind, Kind::Call { function, .. } if function == "format") {
            node.walk(&mut |below| exempt.push(below.id));
        }
    });
    let type_of = |expression: &Expr, is_optional: bool| {
        let type_ = checked.type_of(expression.id);
        match type_.of_optional() {
            Some(inner) if is_optional => inner.clone(),
            _ => type_.clone(),
        }
    };
    let mut compare = |first: &mut Option<Type>, expression: &Expr, type_: Type| match first {
        None => {
            *first = Some(type_);
            true
        }
        Some(first) if *first == type_ => true,
        Some(first) => {
            found.push((
                expression.id,
                format!("expected type '{first}' but found '{type_}'"),
            ));
            false
        }
    };
    expression.walk(&mut |node| match &node.kind {
        Kind::List(elements) if !exempt.contains(&node.id) => {
            let mut first = None;
            for element in elements {
                let type_ = type_of(&element.value, element.is_optional);
                if !compare(&mut first, &element.value, type_) {
                    break;
                }
            }
        }
        Kind::Map(entries) if !exempt.contains(&node.id) => {
            let (mut keys, mut values) = (None, None);
            for entry in entries {
                compare(&mut keys, &entry.key, type_of(&entry.key, false));
                let type_ = type_of(&entry.value, entry.is_optional);
                compare(&mut values, &entry.value, type_);
            }
        }
        _ => {}
    });
}

/// Compares a format with the types of its arguments.
fn check_format(
    call: &Expr,
    text: &str,
    arguments: &Expr,
    checked: &Checked,
) -> Option<(Id, String)> {
    let Kind::List(elements) = &arguments.kind else {
        return None;
    };
    let mut check = |index: usize, clause: format::Clause| {
        let argument = match elements.get(index) {
            Some(element) => &element.value,
            None => return Ok(String::new()),
        };
        let refused = if clause.is_string() {
            unprintable(argument, clause, checked)
        } else {
            refused(argument, clause, checked)
        };
        match refused {
            Some((about, type_)) => Err(Problem::new(Some(about), clause.refusal(&type_))),
            None => Ok(String::new()),
        }
    };
    match format::run(text, elements.len(), &mut check) {
        Err(problem) => Some((problem.about.unwrap_or(call.id), problem.message)),
        Ok((_, used)) if elements.len() > used => Some((
            call.id,
            format!(
                "too many arguments supplied to string.format (expected {used}, got {})",
                elements.len()
            ),
        )),
        Ok(_) => None,
    }
}

fn refused(argument: &Expr, clause: format::Clause, checked: &Checked) -> Option<(Id, String)> {
    let type_ = checked.type_of(argument.id);
    let is_accepted = type_.is_dyn() || clause.accepts().contains(&type_.name().as_str());
    (!is_accepted).then(|| (argument.id, type_.name()))
}

/// The first part of a literal that cannot be printed.
fn unprintable(argument: &Expr, clause: format::Clause, checked: &Checked) -> Option<(Id, String)> {
    let inner = |part: &Expr| unprintable(part, clause, checked);
    refused(argument, clause, checked).or_else(|| match &argument.kind {
        Kind::List(elements) => elements.iter().find_map(|element| inner(&element.value)),
        Kind::Map(entries) => entries
            .iter()
            .find_map(|entry| inner(&entry.key).or_else(|| inner(&entry.value))),
        _ => None,
    })
}
