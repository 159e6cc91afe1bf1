//! Types of maps, messages and comprehensions.

use super::{Checker, most_general};
use crate::{
    ast::{Comprehension, Entry, Expr, Field, Id},
    types::Type,
};

/// Fields of messages that can be constructed.
const TIME_FIELDS: [(&str, Type); 2] = [("seconds", Type::Int), ("nanos", Type::Int)];

impl Checker<'_, '_> {
    /// The common type of the items of a literal.
    pub(super) fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else {
            return current;
        };
        if self.substitutions.assign(&previous, &current) {
            return most_general(&previous, &current);
        }
        // Literals of several types are refused later, except as arguments of `format`.
        Type::Dyn
    }

    pub(super) fn check_map(&mut self, id: Id, entries: &mut [Entry]) {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let key = self.type_of(&entry.key);
            keys = Some(self.join(keys, key));
            self.check(&mut entry.value);
            let value = self.type_of(&entry.value);
            let value = self.unwrapped(&entry.value, value, entry.is_optional);
            values = Some(self.join(values, value));
        }
        let keys = keys.unwrap_or_else(|| self.free_type());
        let values = values.unwrap_or_else(|| self.free_type());
        self.set(id, Type::map(keys, values));
    }

    pub(super) fn check_message(&mut self, id: Id, name: &str, fields: &mut [Field]) {
        let Some(named) = self.lookup(name) else {
            return self.undeclared(id, name);
        };
        let type_ = match named {
            Type::Type(Some(type_)) => match &*type_ {
                time @ (Type::Duration | Type::Timestamp) => time.clone(),
                other => {
                    let other = other.name();
                    self.error(id, format!("'{other}' is not a message type"));
                    Type::Error
                }
            },
            other => {
                self.error(id, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        self.set(id, type_);
        for field in fields {
            self.check(&mut field.value);
            let known = TIME_FIELDS.iter().find(|(name, _)| *name == field.name);
            let Some((_, expected)) = known else {
                self.error(field.id, format!("undefined field '{}'", field.name));
                continue;
            };
            let value = self.type_of(&field.value);
            let value = self.unwrapped(&field.value, value, field.is_optional);
            if !self.substitutions.assign(expected, &value) {
                let name = &field.name;
                let message = format!(
                    "expected type of field '{name}' is '{expected}' but provided type is '{value}'"
                );
                self.error(field.id, message);
            }
        }
    }

    pub(super) fn check_comprehension(&mut self, id: Id, inner: &mut Comprehension) {
        self.check(&mut inner.range);
        self.check(&mut inner.initial);
        let range = self.substitutions.apply(&self.type_of(&inner.range), false);
        let accumulator = self.type_of(&inner.initial);
        let outer = self.scope.len();
        self.scope
            .push((inner.accumulator.clone(), accumulator.clone()));
        let (first, second) = match &range {
            Type::List(items) if inner.second.is_some() => (Type::Int, (**items).clone()),
            Type::List(items) => ((**items).clone(), Type::Dyn),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Parameter(_) => {
                self.substitutions.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(inner.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        let loop_start = self.scope.len();
        self.scope.push((inner.variable.clone(), first));
        if let Some(name) = &inner.second {
            self.scope.push((name.clone(), second));
        }
        self.check(&mut inner.condition);
        self.expect(&inner.condition, &Type::Bool);
        self.check(&mut inner.step);
        self.expect(&inner.step, &accumulator);
        self.scope.truncate(loop_start);
        self.check(&mut inner.result);
        self.scope.truncate(outer);
        let result = self
            .substitutions
            .apply(&self.type_of(&inner.result), false);
        self.set(id, result);
    }

    pub(super) fn expect(&mut self, expression: &Expr, expected: &Type) {
        let found = self.type_of(expression);
        if !self.substitutions.assign(expected, &found) {
            self.mismatch(expression.id, expected, &found);
        }
    }
}
