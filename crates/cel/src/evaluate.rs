//! Evaluation of planned expressions, with its cost.

mod tariff;

use std::{collections::BTreeMap, sync::Arc};

pub(crate) use tariff::Tariff;

use crate::{
    functions::{Environment, Function},
    plan::{Loop, Step},
    value::{Error, Key, List, Map, Result, Value, shown_go_type},
};

const READ: u64 = 1;
const LIST: u64 = 10;
const MAP: u64 = 30;
const MESSAGE: u64 = 40;

/// The error of an evaluation that costs too much.
pub const TOO_EXPENSIVE: &str = "operation cancelled: actual cost limit exceeded";

/// Values of variables, and what the evaluation has cost.
pub(crate) struct Machine<'m, 'a> {
    places: Vec<Result<Value<'a>>>,
    pub(crate) cost: u64,
    limit: u64,
    environment: &'m Environment,
}

impl<'m, 'a> Machine<'m, 'a> {
    pub(crate) fn new(
        variables: Vec<Result<Value<'a>>>,
        limit: u64,
        environment: &'m Environment,
    ) -> Self {
        Self {
            places: variables,
            cost: 0,
            limit,
            environment,
        }
    }

    fn charge(&mut self, cost: u64) -> Result<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.is_exhausted() {
            return Err(Error::new(TOO_EXPENSIVE));
        }
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        self.cost > self.limit
    }

    pub(crate) fn run(&mut self, step: &Step) -> Result<Value<'a>> {
        match step {
            Step::Constant(value) => Ok(value.clone()),
            Step::Variable(place) => {
                self.charge(READ)?;
                match self.places.get(*place) {
                    Some(value) => value.clone(),
                    None => Err(Error::new("no such attribute(s)")),
                }
            }
            Step::Select { operand, field } => {
                let value = self.run(operand)?;
                self.charge(READ)?;
                select(&value, field)
            }
            Step::Has { operand, field } => {
                let value = self.run(operand)?;
                present(&value, field).map(|found| Value::Bool(found.is_some()))
            }
            Step::OptionalSelect { operand, field } => {
                let value = self.run(operand)?;
                self.charge(READ)?;
                present(&value, field).map(Value::optional)
            }
            Step::Index {
                operand,
                index,
                is_optional,
            } => {
                let value = self.run(operand)?;
                let index = self.run(index)?;
                self.charge(READ)?;
                match (&value, is_optional) {
                    (Value::Optional(None), _) => Ok(Value::Optional(None)),
                    (Value::Optional(Some(value)), _) => at(value, &index).map(Value::optional),
                    (_, true) => at(&value, &index).map(Value::optional),
                    (_, false) => at(&value, &index)?.ok_or_else(|| missing(&value, &index)),
                }
            }
            Step::And(terms) => self.logical(terms, false),
            Step::Or(terms) => self.logical(terms, true),
            Step::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                match self.run(condition)? {
                    Value::Bool(true) => self.run(yes),
                    Value::Bool(false) => self.run(no),
                    _ => Err(Error::no_such_overload()),
                }
            }
            Step::NotFalse(argument) => {
                let value = self.run(argument);
                self.charge(1)?;
                Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false)))))
            }
            Step::Alternative {
                operand,
                other,
                is_value,
            } => match self.run(operand)? {
                Value::Optional(Some(value)) if *is_value => Ok((*value).clone()),
                some @ Value::Optional(Some(_)) => Ok(some),
                Value::Optional(None) => self.run(other),
                _ => Err(Error::no_such_overload()),
            },
            Step::Call {
                function,
                tariff,
                arguments,
            } => self.call(*function, *tariff, arguments),
            Step::List(elements) => self.list(elements),
            Step::Map(entries) => self.map(entries),
            Step::Message { name, fields } => {
                let mut values = Vec::with_capacity(fields.len());
                for (field, step) in fields {
                    values.push((field.clone(), self.run(step)?));
                }
                self.charge(MESSAGE)?;
                Step::message(name, &values)
            }
            Step::Append { accumulator, item } => {
                let item = self.run(item);
                self.charge(READ + LIST + 1)?;
                self.change(*accumulator, |list| append(list, item))
            }
            Step::Insert {
                accumulator,
                key,
                value,
            } => {
                let (key, value) = (self.run(key), self.run(value));
                self.charge(READ + 1)?;
                self.change(*accumulator, |map| insert(map, key, value))
            }
            Step::Loop(inner) => self.repeat(inner),
            Step::Bind { value, result } => {
                let value = self.run(value);
                let height = self.places.len();
                self.places.push(value);
                let result = self.run(result);
                self.places.truncate(height);
                result
            }
            Step::Fail(why) => Err(Error::new(why)),
        }
    }

    /// `&&` and `||`: an error counts only if no other term decides.
    fn logical(&mut self, terms: &[Step; 2], decisive: bool) -> Result<Value<'a>> {
        let mut failed = None;
        for term in terms {
            match self.run(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or_else(|| Some(Error::no_such_overload())),
                Err(error) if self.is_exhausted() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn call(
        &mut self,
        function: Function,
        tariff: Tariff,
        arguments: &[Step],
    ) -> Result<Value<'a>> {
        let mut values = Vec::with_capacity(arguments.len());
        let mut failed = None;
        for argument in arguments {
            match self.run(argument) {
                Ok(value) => values.push(value),
                Err(error) => failed = failed.or(Some(error)),
            }
            if self.is_exhausted() {
                return Err(Error::new(TOO_EXPENSIVE));
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        // Before the work, where the result does not matter for the cost.
        self.charge(tariff.before(&values))?;
        let result = function(self.environment, &values);
        self.charge(tariff.after(&result))?;
        result
    }

    fn list(&mut self, elements: &[(Step, bool)]) -> Result<Value<'a>> {
        let mut items = Vec::with_capacity(elements.len());
        for (element, is_optional) in elements {
            match (self.run(element)?, is_optional) {
                (value, false) => items.push(value),
                (Value::Optional(value), true) => {
                    items.extend(value.map(|value| (*value).clone()));
                }
                (other, true) => {
                    let shown = other.shown();
                    return Err(Error::new(format!(
                        "cannot initialize optional list element from non-optional value {shown}"
                    )));
                }
            }
        }
        self.charge(LIST)?;
        Ok(Value::list(items))
    }

    fn map(&mut self, written: &[(Step, Step, bool)]) -> Result<Value<'a>> {
        let mut entries = BTreeMap::new();
        for (key, value, is_optional) in written {
            let key = self.run(key)?;
            let value = self.run(value)?;
            let known = Key::of(&key).ok_or_else(|| Error::new("unsupported key type"))?;
            match (value, is_optional) {
                (value, false) => {
                    entries.insert(known, value);
                }
                (Value::Optional(Some(value)), true) => {
                    entries.insert(known, (*value).clone());
                }
                (Value::Optional(None), true) => {
                    entries.remove(&known);
                }
                (other, true) => {
                    let (key, shown) = (key.shown(), other.shown());
                    return Err(Error::new(format!(
                        "cannot initialize optional entry '{key}' from non-optional value {shown}"
                    )));
                }
            }
        }
        self.charge(MAP)?;
        Ok(Value::Map(Map::Plain(Arc::new(entries))))
    }

    /// Changes a variable in place and returns its new value, which the variable gets anyway.
    fn change(
        &mut self,
        place: usize,
        change: impl FnOnce(Result<Value<'a>>) -> Result<Value<'a>>,
    ) -> Result<Value<'a>> {
        let Some(slot) = self.places.get_mut(place) else {
            return Err(Error::new("no such attribute(s)"));
        };
        // Nothing else holds it, so it need not be copied.
        change(std::mem::replace(slot, Ok(Value::Null)))
    }

    fn repeat(&mut self, inner: &Loop) -> Result<Value<'a>> {
        let range = self.run(&inner.range)?;
        let accumulator = self.places.len();
        let initial = self.run(&inner.initial);
        self.places.push(initial);
        let looped = match range {
            Value::List(list) => self.over_list(inner, accumulator, &list),
            Value::Map(map) => self.over_map(inner, accumulator, &map),
            other => {
                let found = shown_go_type(&other);
                Err(Error::new(if inner.has_second {
                    format!("unsupported comprehension range type: {found}")
                } else {
                    format!("got '{found}', expected iterable type")
                }))
            }
        };
        self.places.truncate(accumulator + 1);
        let result = looped.and_then(|()| self.run(&inner.result));
        self.places.truncate(accumulator);
        result
    }

    fn over_list(&mut self, inner: &Loop, accumulator: usize, list: &List<'a>) -> Result<()> {
        for (index, item) in list.iter().enumerate() {
            self.places.truncate(accumulator + 1);
            if inner.has_second {
                let index = i64::try_from(index).unwrap_or(i64::MAX);
                self.places.push(Ok(Value::Int(index)));
            }
            self.places.push(item);
            if !self.once(inner, accumulator)? {
                break;
            }
        }
        Ok(())
    }

    fn over_map(&mut self, inner: &Loop, accumulator: usize, map: &Map<'a>) -> Result<()> {
        for key in map.keys() {
            self.places.truncate(accumulator + 1);
            let value = inner.has_second.then(|| map.find(&key));
            self.places.push(Ok(key));
            if let Some(value) = value {
                self.places
                    .push(value.map(|value| value.unwrap_or(Value::Null)));
            }
            if !self.once(inner, accumulator)? {
                break;
            }
        }
        Ok(())
    }

    /// One iteration; whether there may be another. An error is a value of the accumulator.
    fn once(&mut self, inner: &Loop, accumulator: usize) -> Result<bool> {
        let condition = self.run(&inner.condition);
        if self.is_exhausted() {
            return Err(Error::new(TOO_EXPENSIVE));
        }
        if matches!(condition, Ok(Value::Bool(false))) {
            return Ok(false);
        }
        let value = self.run(&inner.step);
        if self.is_exhausted() {
            return Err(Error::new(TOO_EXPENSIVE));
        }
        if let Some(slot) = self.places.get_mut(accumulator) {
            *slot = value;
        }
        Ok(true)
    }
}

fn append<'a>(list: Result<Value<'a>>, item: Result<Value<'a>>) -> Result<Value<'a>> {
    match (list?, item?) {
        (Value::List(List::Plain(mut items)), item) => {
            Arc::make_mut(&mut items).push(item);
            Ok(Value::List(List::Plain(items)))
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn insert<'a>(
    map: Result<Value<'a>>,
    key: Result<Value<'a>>,
    value: Result<Value<'a>>,
) -> Result<Value<'a>> {
    let (map, key, value) = (map?, key?, value?);
    let Value::Map(Map::Plain(mut entries)) = map else {
        return Err(Error::no_such_overload());
    };
    let known = Key::of(&key).ok_or_else(|| Error::new("unsupported key type"))?;
    if Arc::make_mut(&mut entries).insert(known, value).is_some() {
        let key = key.shown();
        return Err(Error::new(format!(
            "insert failed: key {key} already exists"
        )));
    }
    Ok(Value::Map(Map::Plain(entries)))
}

fn no_such_key(key: &str) -> Error {
    Error::new(format!("no such key: {key}"))
}

fn unsupported_index(index: &str) -> Error {
    Error::new(format!("unsupported index type '{index}' in list"))
}

fn select<'a>(value: &Value<'a>, field: &str) -> Result<Value<'a>> {
    match value {
        Value::Map(map) => map.find_text(field)?.ok_or_else(|| no_such_key(field)),
        Value::Optional(_) => present(value, field).map(Value::optional),
        Value::List(_) => Err(unsupported_index("string")),
        _ => Err(no_such_key(field)),
    }
}

/// The value of a field, if it is there.
fn present<'a>(value: &Value<'a>, field: &str) -> Result<Option<Value<'a>>> {
    match value {
        Value::Map(map) => map.find_text(field),
        Value::Optional(Some(inner)) => present(inner, field),
        Value::List(_) => Err(unsupported_index("string")),
        _ => Ok(None),
    }
}

/// The item or entry at an index, if it is there.
fn at<'a>(value: &Value<'a>, index: &Value<'a>) -> Result<Option<Value<'a>>> {
    match value {
        Value::Map(map) => map.find(index),
        Value::List(list) => match Key::of(index) {
            Some(Key::Int(index)) => usize::try_from(index)
                .ok()
                .and_then(|index| list.get(index))
                .transpose(),
            Some(Key::Uint(_)) => Ok(None),
            _ => Err(unsupported_index(index.type_name())),
        },
        _ => Ok(None),
    }
}

fn missing(value: &Value<'_>, index: &Value<'_>) -> Error {
    match value {
        Value::List(_) => Error::new(format!("index out of bounds: {}", index.shown())),
        _ => no_such_key(&index.shown()),
    }
}
