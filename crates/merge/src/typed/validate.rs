//! Validation of a value against its shape, with the server's messages.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::items::element_of;
use crate::fields::PathElement;
use crate::go;
use crate::shape::{Form, ListType, MapType, Scalar, Shape, Type};

/// Whether two items of a list may have the same key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// Paths and messages of values that do not match the shape.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ValidationErrors(Vec<(String, String)>);

impl fmt::Display for ValidationErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |(path, message): &(String, String)| {
            if path.is_empty() {
                message.clone()
            } else {
                format!("{path}: {message}")
            }
        };
        match self.0.as_slice() {
            [only] => formatter.write_str(&line(only)),
            many => {
                formatter.write_str("errors:")?;
                many.iter()
                    .try_for_each(|error| write!(formatter, "\n  {}", line(error)))
            }
        }
    }
}

/// Checks a value against its shape.
pub(crate) fn validate(
    shape: &Shape,
    value: &Value,
    duplicates: Duplicates,
) -> Result<(), ValidationErrors> {
    let mut validator = Validator {
        duplicates,
        path: Vec::new(),
        errors: Vec::new(),
    };
    validator.visit(shape.root(), value);
    if validator.errors.is_empty() {
        Ok(())
    } else {
        Err(ValidationErrors(validator.errors))
    }
}

/// Element of the path to a value. Only reported paths become text.
enum Step<'v> {
    Field(&'v str),
    Item(PathElement),
}

struct Validator<'v> {
    duplicates: Duplicates,
    path: Vec<Step<'v>>,
    errors: Vec<(String, String)>,
}

impl<'v> Validator<'v> {
    fn report(&mut self, message: String) {
        let step = |step: &Step<'_>| match step {
            Step::Field(name) => PathElement::field(name).to_string(),
            Step::Item(element) => element.to_string(),
        };
        let path = self.path.iter().map(step).collect();
        self.errors.push((path, message));
    }

    fn visit(&mut self, shape: Type<'_>, value: &'v Value) {
        match shape.form_of(Some(value)) {
            Form::Map(map) => self.visit_map(map, value),
            Form::Scalar(scalar) => {
                if let Some(message) = scalar_error(scalar, value) {
                    self.report(message);
                }
            }
            Form::List(list) => self.visit_list(list, value),
            Form::None => self.report("schema error: invalid atom: inlined".to_owned()),
        }
    }

    fn visit_map(&mut self, map: MapType<'_>, value: &'v Value) {
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Null => return,
            other => return self.report(format!("expected map, got &{{{}}}", go::plain(other))),
        };
        for (name, value) in fields {
            self.path.push(Step::Field(name));
            let shape = map.field(name);
            match shape {
                Some(shape) => self.visit(shape, value),
                None => self.report("field not declared in schema".to_owned()),
            }
            self.path.pop();
            // The server reports one unknown field of a map and skips the rest.
            if shape.is_none() {
                return;
            }
        }
    }

    fn visit_list(&mut self, list: ListType<'_>, value: &'v Value) {
        let items = match value {
            Value::Array(items) => items,
            Value::Null => return,
            other => return self.report(format!("expected list, got &{{{}}}", go::plain(other))),
        };
        let mut keys = BTreeSet::new();
        for (index, item) in (0i64..).zip(items) {
            let element = if list.atomic {
                PathElement::index(index)
            } else {
                match element_of(list, item) {
                    Ok(element) => element,
                    Err(message) => return self.report(format!("element {index}: {message}")),
                }
            };
            if self.duplicates == Duplicates::Refused && !keys.insert(element.clone()) {
                self.report(format!("duplicate entries for key {element}"));
            }
            self.path.push(Step::Item(element));
            self.visit(list.element(), item);
            self.path.pop();
        }
    }
}

fn scalar_error(scalar: Scalar, value: &Value) -> Option<String> {
    let matches = match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_)) => true,
        (Scalar::Any, value) => !value.is_array() && !value.is_object(),
        _ => false,
    };
    let message = || match scalar {
        Scalar::Numeric => format!(
            "expected numeric (int or float), got {}",
            go::type_name(value)
        ),
        Scalar::String => format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go::typed(value)
        ),
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", go::plain(value)),
        Scalar::Any => format!("expected any scalar, got &{{{}}}", go::plain(value)),
    };
    (!matches).then(message)
}
