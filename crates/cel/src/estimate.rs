//! Estimated cost of an expression: the bounds of what evaluating it may cost, from the sizes that
//! types allow.
//!
//! kube-apiserver refuses rules whose estimate is too high, so the estimate equals the server's.

mod amount;
mod calls;

use std::collections::HashMap;

pub(crate) use amount::Range;

use crate::{
    ast::{Comprehension, Expr, Id, Kind, Literal},
    check::Checked,
    data_type::DataType,
    types::Type,
};

/// Cost of reading a variable or a field.
const READ: Range = Range::fixed(1);
const LIST: Range = Range::fixed(10);
const MAP: Range = Range::fixed(30);
const MESSAGE: Range = Range::fixed(40);

/// The cost of a checked expression about data of type `root`.
pub(crate) fn estimate(expression: &Expr, checked: &Checked, root: &DataType) -> Range {
    let mut estimator = Estimator {
        checked,
        root,
        paths: HashMap::new(),
        locals: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    };
    estimator.cost(expression)
}

/// Sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    keys: Range,
    values: Range,
}

/// A variable of a comprehension.
#[derive(Clone, Debug)]
struct Local {
    path: Vec<String>,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Estimator<'e> {
    checked: &'e Checked,
    root: &'e DataType,
    /// Where in the data the value of a node is.
    paths: HashMap<Id, Vec<String>>,
    locals: HashMap<String, Vec<Local>>,
    sizes: HashMap<Id, Range>,
    entries: HashMap<Id, Entries>,
}

/// What is known of an argument.
#[derive(Clone, Debug)]
struct Argument<'e> {
    expression: &'e Expr,
    path: Vec<String>,
    type_: Type,
    size: Option<Range>,
}

impl<'e> Estimator<'e> {
    fn cost(&mut self, expression: &'e Expr) -> Range {
        let id = expression.id;
        match &expression.kind {
            Kind::Literal(_) | Kind::Invalid => Range::ZERO,
            Kind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                self.paths.insert(id, path);
                READ
            }
            Kind::Select {
                operand, is_test, ..
            } if *is_test => self.cost(operand),
            Kind::Select { operand, field, .. } => {
                let mut sum = self.cost(operand);
                let type_ = self.checked.type_of(operand.id);
                if matches!(type_, Type::Map(_) | Type::Struct(_) | Type::Parameter(_)) {
                    sum = sum.add(READ);
                }
                let mut path = self.path(operand);
                path.push(field.clone());
                self.paths.insert(id, path);
                sum
            }
            Kind::Call {
                target,
                function,
                arguments,
            } => self.call(expression, target.as_deref(), function, arguments),
            Kind::List(elements) => {
                let mut sum = LIST;
                let mut values = (!elements.is_empty()).then_some(Range::NONE);
                for element in elements {
                    sum = sum.add(self.cost(&element.value));
                    let size = self.size_or_unknown(&element.value);
                    values = values.map(|values| values.union(size));
                }
                let entries = Entries {
                    is_list: true,
                    keys: Range::fixed(1),
                    values: values.unwrap_or(Range::ZERO),
                };
                self.entries.insert(id, entries);
                sum
            }
            Kind::Map(written) => {
                let mut sum = MAP;
                let mut sizes = (!written.is_empty()).then_some((Range::NONE, Range::NONE));
                for entry in written {
                    sum = sum.add(self.cost(&entry.key));
                    sum = sum.add(self.cost(&entry.value));
                    let key = self.size_or_unknown(&entry.key);
                    let value = self.size_or_unknown(&entry.value);
                    sizes = sizes.map(|(keys, values)| (keys.union(key), values.union(value)));
                }
                let (keys, values) = sizes.unwrap_or((Range::ZERO, Range::ZERO));
                let entries = Entries {
                    is_list: false,
                    keys,
                    values,
                };
                self.entries.insert(id, entries);
                sum
            }
            Kind::Message { fields, .. } => fields
                .iter()
                .fold(MESSAGE, |sum, field| sum.add(self.cost(&field.value))),
            Kind::Comprehension(inner) if is_binding(inner) => self.binding(id, inner),
            Kind::Comprehension(inner) => self.comprehension(id, inner),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn push(&mut self, name: &str, local: Local) {
        self.locals.entry(name.to_owned()).or_default().push(local);
    }

    fn pop(&mut self, name: &str) {
        if let Some(locals) = self.locals.get_mut(name) {
            locals.pop();
        }
    }

    fn path(&self, expression: &Expr) -> Vec<String> {
        if let Kind::Ident(name) = &expression.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expression.id).cloned().unwrap_or_default()
    }

    /// Size of the data at a path. Paths begin with the name of a variable.
    fn size_at(&self, path: &[String]) -> Option<Range> {
        let (_, below) = path.split_first()?;
        let type_ = self.root.at(below)?;
        Some(Range::new(0, type_.max_elements))
    }

    fn size(&mut self, expression: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expression.id) {
            return Some(*size);
        }
        if let Some(size) = size_of_literal(expression) {
            return Some(size);
        }
        if let Some(size) = self.size_at(&self.path(expression)) {
            self.sizes.insert(expression.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expression.id)) {
            return Some(Range::fixed(1));
        }
        match &expression.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expression: &Expr) -> Range {
        self.size(expression).unwrap_or(Range::UNKNOWN)
    }

    fn entries_of(&self, expression: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expression.id) {
            return Some(*entries);
        }
        match &expression.kind {
            Kind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn argument(&mut self, expression: &'e Expr) -> Argument<'e> {
        let mut path = self.path(expression);
        let is_accumulator = |name: &String| name == "@result" || name == "__result__";
        if path.first().is_some_and(is_accumulator) {
            path.clear();
        }
        Argument {
            expression,
            path,
            type_: self.checked.type_of(expression.id).clone(),
            size: self.size(expression),
        }
    }

    fn push_variable(&mut self, name: &str, range: &Expr, is_value: bool, is_single: bool) {
        let entries = self.entries_of(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(range.id), Type::List(_)),
        };
        let is_value = is_value || (is_single && is_list);
        let step = match (is_value, is_list) {
            (true, true) => "@items",
            (true, false) => "@values",
            (false, true) => "@indices",
            (false, false) => "@keys",
        };
        let mut path = self.path(range);
        path.push(step.to_owned());
        let size = entries.map(|entries| {
            if is_value {
                entries.values
            } else {
                entries.keys
            }
        });
        self.push(
            name,
            Local {
                path,
                size,
                entries: None,
            },
        );
    }

    fn comprehension(&mut self, id: Id, inner: &'e Comprehension) -> Range {
        let mut sum = self.cost(&inner.range).add(self.cost(&inner.initial));
        self.push_accumulator(inner);
        match &inner.second {
            Some(second) => {
                self.push_variable(&inner.variable, &inner.range, false, false);
                self.push_variable(second, &inner.range, true, false);
            }
            None => self.push_variable(&inner.variable, &inner.range, false, true),
        }
        let condition = self.cost(&inner.condition);
        let step = self.cost(&inner.step);
        self.pop(&inner.variable);
        if let Some(second) = &inner.second {
            self.pop(second);
        }
        sum = sum.add(self.cost(&inner.result));
        self.pop(&inner.accumulator);
        let count = self.size_or_unknown(&inner.range);
        match &inner.initial.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.size(&inner.initial) {
                    self.sizes.insert(id, size);
                }
            }
            Kind::List(_) | Kind::Map(_) => {
                self.sizes.insert(id, count);
                if let Some(entries) = self.entries_of(&inner.step) {
                    self.entries.insert(id, entries);
                }
            }
            _ => {}
        }
        sum.add(count.multiply(step.add(condition)))
    }

    fn push_accumulator(&mut self, inner: &Comprehension) {
        let local = Local {
            path: self.path(&inner.initial),
            size: self.size(&inner.initial),
            entries: self.entries_of(&inner.initial),
        };
        self.push(&inner.accumulator, local);
    }

    fn binding(&mut self, id: Id, inner: &'e Comprehension) -> Range {
        let sum = self.cost(&inner.range).add(self.cost(&inner.initial));
        self.push_accumulator(inner);
        let sum = sum.add(self.cost(&inner.result));
        self.pop(&inner.accumulator);
        self.copy_sizes(id, &inner.result);
        sum
    }

    fn copy_sizes(&mut self, id: Id, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(id, entries);
        }
    }
}

/// Whether a comprehension only names a value.
pub(crate) fn is_binding(inner: &Comprehension) -> bool {
    matches!(&inner.range.kind, Kind::List(elements) if elements.is_empty())
        && inner.condition.literal() == Some(&Literal::Bool(false))
        && inner.accumulator != "__result__"
}

fn size_of_literal(expression: &Expr) -> Option<Range> {
    let size = match &expression.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count(),
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        Kind::Literal(_) => 1,
        Kind::List(elements) => elements.len(),
        Kind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(Range::fixed(size as u64))
}

fn is_scalar(type_: &Type) -> bool {
    match type_ {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        other => other.of_optional().is_some_and(is_scalar),
    }
}
