//! Syntax tree of an expression.
//!
//! Every node has an identifier, by which positions, types and overloads are found.

/// Identifier of a node, unique in its expression.
pub(crate) type Id = usize;

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        /// Whether only the presence of the field is tested: `has(operand.field)`.
        is_test: bool,
    },
    Call {
        target: Option<Box<Expr>>,
        function: String,
        arguments: Vec<Expr>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Message {
        name: String,
        fields: Vec<Field>,
    },
    Comprehension(Box<Comprehension>),
    /// Stands for a part with an error that has been reported.
    Invalid,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// Item of a list literal: `[?optional]`.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// Entry of a map literal: `{?key: optional}`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// Field of a message literal.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// A loop over a list or map. All macros with variables become one.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    pub(crate) second: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) initial: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// Name of the accumulator of macros; it cannot be written in a source.
pub(crate) const ACCUMULATOR: &str = "@result";

impl Expr {
    pub(crate) fn literal(&self) -> Option<&Literal> {
        match &self.kind {
            Kind::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    /// `a.b.c` as text; `None` for all other expressions.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select {
                operand,
                field,
                is_test: false,
            } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// Calls `visit` with this node and all nodes below it, in the order of the source.
    pub(crate) fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Self)) {
        visit(self);
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Invalid => {}
            Kind::Select { operand, .. } => operand.walk(visit),
            Kind::Call {
                target, arguments, ..
            } => {
                for part in target.as_deref().into_iter().chain(arguments) {
                    part.walk(visit);
                }
            }
            Kind::List(elements) => {
                for element in elements {
                    element.value.walk(visit);
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    entry.key.walk(visit);
                    entry.value.walk(visit);
                }
            }
            Kind::Message { fields, .. } => {
                for field in fields {
                    field.value.walk(visit);
                }
            }
            Kind::Comprehension(inner) => {
                for part in [
                    &inner.range,
                    &inner.initial,
                    &inner.condition,
                    &inner.step,
                    &inner.result,
                ] {
                    part.walk(visit);
                }
            }
        }
    }

    /// Levels of nodes.
    pub(crate) fn depth(&self) -> usize {
        let deepest = |parts: &mut dyn Iterator<Item = &Self>| {
            parts.map(Self::depth).max().unwrap_or_default()
        };
        1 + match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Invalid => 0,
            Kind::Select { operand, .. } => operand.depth(),
            Kind::Call {
                target, arguments, ..
            } => deepest(&mut target.as_deref().into_iter().chain(arguments)),
            Kind::List(elements) => deepest(&mut elements.iter().map(|element| &element.value)),
            Kind::Map(entries) => {
                deepest(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value]))
            }
            Kind::Message { fields, .. } => deepest(&mut fields.iter().map(|field| &field.value)),
            Kind::Comprehension(inner) => deepest(
                &mut [
                    &inner.range,
                    &inner.initial,
                    &inner.condition,
                    &inner.step,
                    &inner.result,
                ]
                .into_iter(),
            ),
        }
    }
}
