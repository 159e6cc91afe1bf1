//! Unification of types with type parameters.

use std::collections::HashMap;

use crate::types::{Parameter, Type};

/// Types of free parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Substitutions(HashMap<u32, Type>);

impl Substitutions {
    fn of(&self, type_: &Type) -> Option<&Type> {
        match type_ {
            Type::Parameter(Parameter::Free(number)) => self.0.get(number),
            _ => None,
        }
    }

    fn add(&mut self, parameter: &Type, type_: Type) {
        if let Type::Parameter(Parameter::Free(number)) = parameter {
            self.0.insert(*number, type_);
        }
    }

    /// Unifies `one` with `other`. Nothing changes if they do not fit.
    pub(super) fn assign(&mut self, one: &Type, other: &Type) -> bool {
        let mut trial = self.clone();
        let fits = trial.fits(one, other);
        if fits {
            *self = trial;
        }
        fits
    }

    /// [`Self::assign`] for all types of two lists.
    pub(super) fn assign_all(&mut self, ones: &[Type], others: &[Type]) -> bool {
        let mut trial = self.clone();
        let fits = ones.len() == others.len()
            && ones
                .iter()
                .zip(others)
                .all(|(one, other)| trial.fits(one, other));
        if fits {
            *self = trial;
        }
        fits
    }

    fn fits(&mut self, one: &Type, other: &Type) -> bool {
        if matches!(other, Type::Parameter(_)) {
            let (is_valid, is_bound) = self.bind(one, other);
            if is_valid {
                return true;
            }
            if is_bound {
                return false;
            }
        }
        if matches!(one, Type::Parameter(_)) {
            return self.bind(other, one).0;
        }
        if one.is_dyn_or_error() || other.is_dyn_or_error() {
            return true;
        }
        if *one == Type::Null {
            return is_nullable(other);
        }
        if *other == Type::Null {
            return is_nullable(one);
        }
        match (one, other) {
            (Type::Type(_), _) => matches!(other, Type::Type(_)),
            (Type::List(_) | Type::Map(_) | Type::Opaque(..), _) => {
                let (ones, others) = (one.parameters(), other.parameters());
                one.same_kind(other)
                    && ones.len() == others.len()
                    && ones
                        .into_iter()
                        .zip(others)
                        .all(|(one, other)| self.fits(one, other))
            }
            _ => one == other,
        }
    }

    /// Whether the parameter `to` can stand for `type_`, and whether it stood for a type before.
    fn bind(&mut self, type_: &Type, to: &Type) -> (bool, bool) {
        if type_ == to {
            return (true, true);
        }
        if let Some(bound) = self.of(to).cloned() {
            if *type_ == bound {
                return (true, true);
            }
            if !self.fits(type_, &bound) {
                return (false, true);
            }
            let general = most_general(type_, &bound);
            if !self.occurs(to, &general) {
                self.add(to, general);
            }
            return (true, true);
        }
        if self.occurs(to, type_) {
            return (false, false);
        }
        self.add(to, type_.clone());
        (true, false)
    }

    /// Whether a type contains `parameter`.
    fn occurs(&self, parameter: &Type, within: &Type) -> bool {
        if parameter == within {
            return true;
        }
        match within {
            Type::Parameter(_) => self
                .of(within)
                .is_some_and(|bound| self.occurs(parameter, bound)),
            _ => within
                .parameters()
                .into_iter()
                .any(|inner| self.occurs(parameter, inner)),
        }
    }

    /// The type with all bound parameters replaced. Others become `dyn` if `is_final`.
    pub(super) fn apply(&self, type_: &Type, is_final: bool) -> Type {
        if let Some(bound) = self.of(type_) {
            return self.apply(bound, is_final);
        }
        match type_ {
            Type::Parameter(_) if is_final => Type::Dyn,
            _ => replace(type_, &mut |inner| self.apply(inner, is_final)),
        }
    }
}

/// The type with `each` applied to its parameters.
pub(super) fn replace(type_: &Type, each: &mut dyn FnMut(&Type) -> Type) -> Type {
    match type_ {
        Type::List(items) => Type::list(each(items)),
        Type::Map(entry) => Type::map(each(&entry.0), each(&entry.1)),
        Type::Type(Some(inner)) => Type::Type(Some(each(inner).into())),
        Type::Opaque(name, inner) => Type::Opaque(name, inner.iter().map(each).collect()),
        other => other.clone(),
    }
}

fn is_nullable(type_: &Type) -> bool {
    matches!(
        type_,
        Type::Null | Type::Opaque(..) | Type::Struct(_) | Type::Duration | Type::Timestamp
    )
}

pub(super) fn most_general(one: &Type, other: &Type) -> Type {
    if is_equal_or_less_specific(one, other) {
        one.clone()
    } else {
        other.clone()
    }
}

fn is_equal_or_less_specific(one: &Type, other: &Type) -> bool {
    if one.is_dyn() || matches!(one, Type::Parameter(_)) {
        return true;
    }
    if other.is_dyn() || matches!(other, Type::Parameter(_)) || !one.same_kind(other) {
        return false;
    }
    match one {
        Type::List(_) | Type::Map(_) | Type::Opaque(..) => {
            let (ones, others) = (one.parameters(), other.parameters());
            ones.len() == others.len()
                && ones
                    .into_iter()
                    .zip(others)
                    .all(|(one, other)| is_equal_or_less_specific(one, other))
        }
        Type::Type(_) => true,
        _ => one == other,
    }
}
