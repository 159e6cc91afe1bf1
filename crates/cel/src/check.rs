//! Type checker.
//!
//! Follows the algorithm of the checker that kube-apiserver uses, since the order in which overloads
//! are tried and parameters are bound decides which error is reported.

mod aggregates;
mod literals;
mod unify;

use std::collections::HashMap;

pub(crate) use literals::value;
use unify::{Substitutions, most_general, replace};

use crate::{
    ast::{Expr, Id, Kind, Literal},
    data_type::Shape,
    declarations::{Overload, overloads},
    source::Source,
    types::{Parameter, Struct, Type},
};

/// What the checker found about each node.
#[derive(Debug)]
pub(crate) struct Checked {
    types: Vec<Option<Type>>,
    overloads: Vec<Vec<&'static str>>,
    /// Variables that the expression refers to.
    pub(crate) variables: Vec<String>,
}

impl Checked {
    pub(crate) fn type_of(&self, id: Id) -> &Type {
        match self.types.get(id) {
            Some(Some(type_)) => type_,
            _ => &Type::Dyn,
        }
    }

    /// Overloads that a call may mean; which one is known when it is evaluated.
    pub(crate) fn overloads(&self, id: Id) -> &[&'static str] {
        self.overloads.get(id).map_or(&[], Vec::as_slice)
    }
}

/// Names of types, which are values too.
pub(crate) fn type_named(name: &str) -> Option<Type> {
    let parameter = |name| Type::Parameter(Parameter::Declared(name));
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "int" => Type::Int,
        "list" => Type::list(parameter('A')),
        "map" => Type::map(parameter('A'), parameter('B')),
        "null_type" => Type::Null,
        "string" => Type::String,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "type" => Type::Type(None),
        "uint" => Type::Uint,
        "optional_type" => Type::optional(parameter('V')),
        "net.IP" => Type::Opaque("net.IP", Vec::new()),
        "net.CIDR" => Type::Opaque("net.CIDR", Vec::new()),
        _ => return None,
    })
}

/// Checks an expression with variables, and resolves qualified names in it. Errors are added to the
/// source.
pub(crate) fn check(
    source: &mut Source<'_>,
    expression: &mut Expr,
    variables: &[(&str, Type)],
) -> Checked {
    let scope = variables
        .iter()
        .map(|(name, type_)| ((*name).to_owned(), type_.clone()))
        .collect();
    let mut checker = Checker {
        types: vec![None; source.ids()],
        overloads: vec![Vec::new(); source.ids()],
        globals: variables.len(),
        scope,
        source,
        substitutions: Substitutions::default(),
        free: 0,
        used: Vec::new(),
    };
    checker.check(expression);
    let substitutions = &checker.substitutions;
    let finish = |type_: Option<Type>| type_.map(|type_| substitutions.apply(&type_, true));
    let checked = Checked {
        types: checker.types.into_iter().map(finish).collect(),
        overloads: checker.overloads,
        variables: checker.used,
    };
    if !source.has_errors() {
        literals::validate(source, expression, &checked);
    }
    checked
}

struct Checker<'c, 's> {
    source: &'c mut Source<'s>,
    types: Vec<Option<Type>>,
    overloads: Vec<Vec<&'static str>>,
    scope: Vec<(String, Type)>,
    /// Number of variables at the start of the scope that are given from outside.
    globals: usize,
    substitutions: Substitutions,
    free: u32,
    used: Vec<String>,
}

impl Checker<'_, '_> {
    fn set(&mut self, id: Id, type_: Type) {
        if let Some(slot) = self.types.get_mut(id) {
            *slot = Some(type_);
        }
    }

    fn type_of(&self, expression: &Expr) -> Type {
        let known = self.types.get(expression.id).cloned().flatten();
        known.unwrap_or(Type::Error)
    }

    fn free_type(&mut self) -> Type {
        self.free += 1;
        Type::Parameter(Parameter::Free(self.free - 1))
    }

    fn error(&mut self, id: Id, message: String) {
        self.source.error(id, message);
    }

    fn undeclared(&mut self, id: Id, name: &str) {
        self.set(id, Type::Error);
        self.error(
            id,
            format!("undeclared reference to '{name}' (in container '')"),
        );
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.error(
            id,
            format!("expected type '{expected}' but found '{found}'"),
        );
    }

    fn lookup(&mut self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let found = self.scope.iter().rposition(|(known, _)| known == name);
        if let Some(index) = found {
            if index < self.globals && !self.used.iter().any(|used| used == name) {
                self.used.push(name.to_owned());
            }
            return self.scope.get(index).map(|(_, type_)| type_.clone());
        }
        let type_ = type_named(name)?;
        Some(Type::Type(Some(type_.into())))
    }

    fn check(&mut self, expression: &mut Expr) {
        let id = expression.id;
        match &mut expression.kind {
            Kind::Invalid => self.set(id, Type::Error),
            Kind::Literal(literal) => {
                let type_ = match literal {
                    Literal::Null => Type::Null,
                    Literal::Bool(_) => Type::Bool,
                    Literal::Int(_) => Type::Int,
                    Literal::Uint(_) => Type::Uint,
                    Literal::Double(_) => Type::Double,
                    Literal::String(_) => Type::String,
                    Literal::Bytes(_) => Type::Bytes,
                };
                self.set(id, type_);
            }
            Kind::Ident(name) => match self.lookup(name) {
                Some(type_) => {
                    if let Some(plain) = name.strip_prefix('.') {
                        *name = plain.to_owned();
                    }
                    self.set(id, type_);
                }
                None => {
                    let name = name.clone();
                    self.undeclared(id, &name);
                }
            },
            Kind::Select { .. } => self.check_select(expression),
            Kind::Call { .. } => self.check_call(expression),
            Kind::List(elements) => {
                let mut items = None;
                for element in elements {
                    self.check(&mut element.value);
                    let type_ = self.type_of(&element.value);
                    let type_ = self.unwrapped(&element.value, type_, element.is_optional);
                    items = Some(self.join(items, type_));
                }
                let items = items.unwrap_or_else(|| self.free_type());
                self.set(id, Type::list(items));
            }
            Kind::Map(entries) => self.check_map(id, entries),
            Kind::Message { name, fields } => {
                let name = name.trim_start_matches('.').to_owned();
                self.check_message(id, &name, fields);
            }
            Kind::Comprehension(inner) => self.check_comprehension(id, inner),
        }
    }

    fn unwrapped(&mut self, value: &Expr, type_: Type, is_optional: bool) -> Type {
        if !is_optional {
            return type_;
        }
        match type_.of_optional() {
            Some(inner) => inner.clone(),
            None => {
                if !type_.is_dyn() {
                    self.mismatch(value.id, &Type::optional(type_.clone()), &type_);
                }
                type_
            }
        }
    }

    fn check_select(&mut self, expression: &mut Expr) {
        let id = expression.id;
        if let Some(name) = expression.qualified_name()
            && let Some(type_) = self.lookup(&name)
        {
            self.set(id, type_);
            expression.kind = Kind::Ident(name.trim_start_matches('.').to_owned());
            return;
        }
        let Kind::Select {
            operand,
            field,
            is_test,
        } = &mut expression.kind
        else {
            return;
        };
        let (field, is_test) = (field.clone(), *is_test);
        let type_ = self.check_field(id, operand, &field, false);
        let type_ = if is_test { Type::Bool } else { type_ };
        let type_ = self.substitutions.apply(&type_, false);
        self.set(id, type_);
    }

    fn check_field(&mut self, id: Id, operand: &mut Expr, field: &str, is_optional: bool) -> Type {
        self.check(operand);
        let operand = self.substitutions.apply(&self.type_of(operand), false);
        let (target, was_optional) = match operand.of_optional() {
            Some(inner) => (inner.clone(), true),
            None => (operand, false),
        };
        let result = match &target {
            Type::Map(entry) => entry.1.clone(),
            Type::Struct(object) => self.field_of(id, object, field),
            Type::Parameter(_) => {
                self.substitutions.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    let message = format!("type '{other}' does not support field selection");
                    self.error(id, message);
                }
                Type::Dyn
            }
        };
        if was_optional || is_optional {
            Type::optional(result)
        } else {
            result
        }
    }

    fn field_of(&mut self, id: Id, object: &Struct, field: &str) -> Type {
        let found = match object.data.as_deref().map(|data| &data.shape) {
            Some(Shape::Object(fields)) => fields.fields.get(field),
            _ => {
                let message = format!("unexpected failed resolution of '{}'", object.name);
                self.error(id, message);
                return Type::Error;
            }
        };
        let Some(found) = found else {
            self.error(id, format!("undefined field '{field}'"));
            return Type::Error;
        };
        Type::of(&found.type_, &format!("{}.{field}", object.name))
    }

    fn check_optional_select(&mut self, id: Id, arguments: &mut [Expr]) {
        let [operand, field] = arguments else { return };
        let Some(Literal::String(name)) = field.literal() else {
            return;
        };
        let name = name.clone();
        let type_ = self.check_field(id, operand, &name, true);
        let type_ = self.substitutions.apply(&type_, false);
        self.set(id, type_);
        self.set(field.id, Type::String);
        self.refer(id, "select_optional_field");
    }

    fn refer(&mut self, id: Id, overload: &'static str) {
        if let Some(overloads) = self.overloads.get_mut(id) {
            overloads.push(overload);
        }
    }

    fn check_call(&mut self, expression: &mut Expr) {
        let id = expression.id;
        let Kind::Call {
            target,
            function,
            arguments,
        } = &mut expression.kind
        else {
            return;
        };
        if function == "_?._" {
            return self.check_optional_select(id, arguments);
        }
        for argument in arguments.iter_mut() {
            self.check(argument);
        }
        let Some(receiver) = target else {
            let plain = function.trim_start_matches('.').to_owned();
            let Some(declared) = overloads(&plain) else {
                let function = function.clone();
                return self.undeclared(id, &function);
            };
            function.clone_from(&plain);
            let types: Vec<Type> = arguments.iter().map(|part| self.type_of(part)).collect();
            return self.resolve(id, &plain, declared, &types, arguments, false);
        };
        let qualified = receiver
            .qualified_name()
            .map(|prefix| format!("{}.{function}", prefix.trim_start_matches('.')));
        if let Some(name) = qualified
            && let Some(declared) = overloads(&name)
        {
            *target = None;
            function.clone_from(&name);
            let types: Vec<Type> = arguments.iter().map(|part| self.type_of(part)).collect();
            return self.resolve(id, &name, declared, &types, arguments, false);
        }
        self.check(receiver);
        let name = function.clone();
        let Some(declared) = overloads(&name) else {
            return self.undeclared(id, &name);
        };
        let parts = std::iter::once(&**receiver).chain(arguments.iter());
        let types: Vec<Type> = parts.map(|part| self.type_of(part)).collect();
        self.resolve(id, &name, declared, &types, arguments, true);
    }

    fn resolve(
        &mut self,
        id: Id,
        function: &str,
        declared: &'static [Overload],
        types: &[Type],
        arguments: &[Expr],
        is_member: bool,
    ) {
        if matches!(function, "_&&_" | "_||_") {
            return self.resolve_logical(id, function, types, arguments);
        }
        let mut result: Option<Type> = None;
        for overload in declared
            .iter()
            .filter(|overload| overload.is_member == is_member)
        {
            let (parameters, returned) = self.instantiated(overload);
            if !self.substitutions.assign_all(types, &parameters) {
                continue;
            }
            self.refer(id, overload.id);
            let returned = self.substitutions.apply(&returned, false);
            result = Some(match result {
                None => returned,
                Some(known) if known.is_dyn() || known == returned => known,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return self.set(id, result);
        }
        self.set(id, Type::Error);
        let shown: Vec<String> = types
            .iter()
            .map(|type_| self.substitutions.apply(type_, true).to_string())
            .collect();
        let signature = match shown.as_slice() {
            [target, rest @ ..] if is_member => format!("{target}.({})", rest.join(", ")),
            all => format!("({})", all.join(", ")),
        };
        self.error(
            id,
            format!("found no matching overload for '{function}' applied to '{signature}'"),
        );
    }

    fn resolve_logical(&mut self, id: Id, function: &str, types: &[Type], arguments: &[Expr]) {
        let mut fits = true;
        for (type_, argument) in types.iter().zip(arguments) {
            if !self.substitutions.assign(type_, &Type::Bool) {
                self.mismatch(argument.id, &Type::Bool, type_);
                fits = false;
            }
        }
        if fits {
            let overload = match function {
                "_&&_" => "logical_and",
                _ => "logical_or",
            };
            self.refer(id, overload);
        }
        self.set(id, if fits { Type::Bool } else { Type::Error });
    }

    /// Parameters and result of an overload, with free parameters.
    fn instantiated(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        if !overload.is_generic {
            return (overload.arguments.clone(), overload.result.clone());
        }
        let mut names = HashMap::new();
        let arguments = overload.arguments.iter();
        let parameters = arguments
            .map(|type_| self.fresh(type_, &mut names))
            .collect();
        let result = self.fresh(&overload.result, &mut names);
        (parameters, result)
    }

    fn fresh(&mut self, type_: &Type, names: &mut HashMap<char, Type>) -> Type {
        if let Type::Parameter(Parameter::Declared(name)) = type_ {
            if let Some(known) = names.get(name) {
                return known.clone();
            }
            let free = self.free_type();
            names.insert(*name, free.clone());
            return free;
        }
        replace(type_, &mut |inner| self.fresh(inner, names))
    }
}
