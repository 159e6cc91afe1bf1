//! Static checks of CEL rules: syntax, known fields, variables and functions, boolean result.
//!
//! kube-apiserver has a full type checker. This one knows the types of fields, literals and
//! operators, and treats everything else as dynamic: its errors match the server's, but it does not
//! find all of them.

use kube_cel::cel::{
    ParseError,
    common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue},
};

use super::{
    cost::{self, InvalidRule},
    names::{FUNCTIONS, LIBRARIES, TYPES},
    values::unescaped,
};
use crate::node::{Node, Type};

/// Whether a rule uses `oldSelf`; the error says why it is invalid.
pub(crate) fn rule(
    source: &str,
    node: &Node,
    is_object: bool,
    is_old_optional: bool,
) -> Result<bool, String> {
    let (type_, uses_old_self) = check(source, node, is_object, is_old_optional)?;
    match type_ {
        Kind::Bool | Kind::Dyn => Ok(uses_old_self),
        _ => Err("cel expression must evaluate to a bool".to_owned()),
    }
}

/// Error in a messageExpression.
pub(crate) fn message(
    source: &str,
    node: &Node,
    is_object: bool,
    is_old_optional: bool,
) -> Result<(), String> {
    match check(source, node, is_object, is_old_optional)?.0 {
        Kind::String | Kind::Dyn => Ok(()),
        _ => Err("messageExpression must evaluate to a string".to_owned()),
    }
}

fn check<'n>(
    source: &str,
    node: &'n Node,
    is_object: bool,
    is_old_optional: bool,
) -> Result<(Kind<'n>, bool), String> {
    let parsed = cost::parse(source).map_err(|unusable| match unusable {
        InvalidRule::TooLarge(detail) => format!("compilation failed: the rule {detail}"),
        InvalidRule::Unsupported(detail) => format!("compilation failed: {detail}"),
        InvalidRule::Unparsable(errors) => {
            let with_source_line = |error: &ParseError| {
                let line = usize::try_from(error.pos.0).unwrap_or(1).max(1);
                let column = usize::try_from(error.pos.1).unwrap_or(1).max(1);
                with_source_line(source, line, column, &error.msg)
            };
            let errors: Vec<String> = errors.errors.iter().map(with_source_line).collect();
            format!("compilation failed: {}", errors.join("\n"))
        }
    })?;
    let own = Kind::of(node, is_object);
    let old = if is_old_optional { Kind::Dyn } else { own };
    let mut checker = Checker {
        source,
        variables: vec![("self".to_owned(), own), ("oldSelf".to_owned(), old)],
    };
    let kind = checker
        .kind(&parsed.plain)
        .map_err(|error| format!("compilation failed: {error}"))?;
    Ok((kind, parsed.uses_old_self))
}

/// Error with the source line and a caret.
fn with_source_line(source: &str, line: usize, column: usize, error: &str) -> String {
    let text = source.lines().nth(line - 1).unwrap_or("");
    let dots = ".".repeat(column.saturating_sub(1));
    format!("ERROR: <input>:{line}:{column}: {error}\n | {text}\n | {dots}^")
}

/// Static type of an expression.
#[derive(Clone, Copy)]
enum Kind<'n> {
    Dyn,
    Bool,
    Int,
    Double,
    String,
    Timestamp,
    /// Value with a schema; true if it has the fields of every object.
    Described(&'n Node, bool),
    Metadata,
    /// Known to be none of these.
    Other,
}

impl<'n> Kind<'n> {
    fn of(node: &'n Node, is_object: bool) -> Self {
        if node.int_or_string || node.nullable {
            return Self::Dyn;
        }
        match (node.type_, node.format.as_deref()) {
            (Some(Type::Boolean), _) => Self::Bool,
            (Some(Type::Integer), _) => Self::Int,
            (Some(Type::Number), _) => Self::Double,
            (Some(Type::String), Some("date" | "date-time")) => Self::Timestamp,
            (Some(Type::String), Some("byte" | "duration")) => Self::Other,
            (Some(Type::String), _) => Self::String,
            (Some(Type::Object | Type::Array), _) => Self::Described(node, is_object),
            (None, _) => Self::Dyn,
        }
    }

    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Double => "double",
            Self::String => "string",
            Self::Timestamp => "timestamp",
            Self::Dyn | Self::Described(..) | Self::Metadata | Self::Other => return None,
        })
    }
}

struct Checker<'s, 'n> {
    source: &'s str,
    variables: Vec<(String, Kind<'n>)>,
}

impl<'n> Checker<'_, 'n> {
    fn kind(&mut self, expression: &IdedExpr) -> Result<Kind<'n>, String> {
        Ok(match &expression.expr {
            Expr::Ident(name) => return self.variable(name),
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Kind::Bool,
                LiteralValue::Int(_) => Kind::Int,
                LiteralValue::Double(_) => Kind::Double,
                LiteralValue::String(_) => Kind::String,
                LiteralValue::Null => Kind::Dyn,
                _ => Kind::Other,
            },
            Expr::Select(select) => {
                let operand = self.kind(&select.operand)?;
                let field = self.field(operand, &select.field, select.test)?;
                if select.test { Kind::Bool } else { field }
            }
            Expr::Call(call) => return self.call(call),
            Expr::Comprehension(comprehension) => return self.comprehension(comprehension),
            Expr::List(list) => {
                for element in &list.elements {
                    self.kind(element)?;
                }
                Kind::Other
            }
            Expr::Map(_) | Expr::Struct(_) => Kind::Other,
            Expr::Unspecified => Kind::Dyn,
        })
    }

    fn variable(&self, name: &str) -> Result<Kind<'n>, String> {
        let known = self.variables.iter().rev().find(|(known, _)| known == name);
        match known {
            Some((_, kind)) => Ok(*kind),
            None if name.starts_with('@') || TYPES.contains(&name) => Ok(Kind::Dyn),
            None => Err(self.error(
                self.position(name, 0),
                &format!("undeclared reference to '{name}' (in container '')"),
            )),
        }
    }

    fn field(&self, operand: Kind<'n>, field: &str, is_test: bool) -> Result<Kind<'n>, String> {
        let undefined = || {
            let at = if is_test {
                self.position_of_test(field)
            } else {
                self.position(&format!(".{field}"), 0)
            };
            Err(self.error(at, &format!("undefined field '{field}'")))
        };
        match operand {
            Kind::Dyn => Ok(Kind::Dyn),
            Kind::Metadata if matches!(field, "name" | "generateName") => Ok(Kind::String),
            Kind::Described(node, is_object) if node.type_ == Some(Type::Object) => {
                if is_object {
                    match field {
                        "metadata" => return Ok(Kind::Metadata),
                        "apiVersion" | "kind" => return Ok(Kind::String),
                        _ => {}
                    }
                }
                let name = unescaped(field);
                let property = node.properties.get(&name).filter(|property| {
                    // Fields without a type are not visible to rules.
                    property.type_.is_some() || property.int_or_string
                });
                match property.or(node.additional_properties.schema()) {
                    Some(schema) => Ok(Kind::of(schema, schema.embedded_resource)),
                    None => undefined(),
                }
            }
            Kind::Metadata => undefined(),
            other => {
                let at = self.position(&format!(".{field}"), 0);
                match other.name() {
                    Some(name) => Err(self.error(
                        at,
                        &format!("type '{name}' does not support field selection"),
                    )),
                    None => Ok(Kind::Dyn),
                }
            }
        }
    }

    fn call(&mut self, call: &CallExpr) -> Result<Kind<'n>, String> {
        let name = call.func_name.as_str();
        if name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let is_library = call.target.as_deref().is_some_and(
                |target| matches!(&target.expr, Expr::Ident(name) if LIBRARIES.contains(&name.as_str())),
            );
            if !FUNCTIONS.contains(&name) && !is_library && !name.contains('.') {
                let at = self.position(&format!("{name}("), name.len());
                return Err(self.error(
                    at,
                    &format!("undeclared reference to '{name}' (in container '')"),
                ));
            }
            let target = call.target.as_deref().filter(|_| !is_library);
            for argument in target.into_iter().chain(&call.args) {
                self.kind(argument)?;
            }
            return Ok(result_of(name));
        }
        let mut kinds = Vec::with_capacity(call.args.len());
        for argument in &call.args {
            kinds.push(self.kind(argument)?);
        }
        match (name, kinds.as_slice()) {
            ("_==_" | "_!=_", [left, right]) => {
                if let (Some(left), Some(right)) = (left.name(), right.name())
                    && left != right
                {
                    let operator = name.trim_matches('_');
                    let error = format!(
                        "found no matching overload for '{name}' applied to '({left}, {right})'"
                    );
                    return Err(self.error(self.position(operator, 0), &error));
                }
                Ok(Kind::Bool)
            }
            ("_<_" | "_<=_" | "_>_" | "_>=_" | "_&&_" | "_||_" | "!_" | "@in", _) => Ok(Kind::Bool),
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [left, right]) => Ok(match (left, right) {
                (Kind::Int, Kind::Int) => Kind::Int,
                (Kind::Double, Kind::Double) => Kind::Double,
                (Kind::String, Kind::String) => Kind::String,
                _ => Kind::Dyn,
            }),
            ("_?_:_", [_, yes, no]) if yes.name() == no.name() => Ok(*yes),
            ("_[_]", [Kind::Described(node, _), _]) => {
                let inner = node
                    .items
                    .as_deref()
                    .or(node.additional_properties.schema());
                Ok(inner.map_or(Kind::Dyn, |inner| Kind::of(inner, inner.embedded_resource)))
            }
            _ => Ok(Kind::Dyn),
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Result<Kind<'n>, String> {
        let range = self.kind(&comprehension.iter_range)?;
        let item = match range {
            Kind::Described(node, _) => match &node.items {
                Some(items) => Kind::of(items, items.embedded_resource),
                None if comprehension.iter_var2.is_none() => Kind::String,
                None => Kind::Dyn,
            },
            _ => Kind::Dyn,
        };
        let accumulator = match self.kind(&comprehension.accu_init)? {
            Kind::Bool => Kind::Bool,
            _ => Kind::Dyn,
        };
        let depth = self.variables.len();
        self.variables
            .push((comprehension.accu_var.clone(), accumulator));
        self.variables.push((comprehension.iter_var.clone(), item));
        if let Some(second) = &comprehension.iter_var2 {
            self.variables.push((second.clone(), Kind::Dyn));
        }
        self.kind(&comprehension.loop_cond)?;
        self.kind(&comprehension.loop_step)?;
        let result = self.kind(&comprehension.result);
        self.variables.truncate(depth);
        result
    }

    /// Offset of the first occurrence plus `offset`.
    fn position(&self, text: &str, offset: usize) -> usize {
        let is_word = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        let bytes = self.source.as_bytes();
        let ends_in_word = text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let starts_with_word = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let fits = |index: &usize| {
            let before = index.checked_sub(1).and_then(|before| bytes.get(before));
            let is_cut = (starts_with_word && is_word(before))
                || (ends_in_word && is_word(bytes.get(index + text.len())));
            !is_cut
        };
        let found = self.source.match_indices(text).map(|(index, _)| index);
        found.into_iter().find(fits).unwrap_or(0) + offset
    }

    /// Offset of the parenthesis of `has(….field)`.
    fn position_of_test(&self, field: &str) -> usize {
        let ending = format!(".{field}");
        let tests = self.source.match_indices("has(");
        let of_field = |(index, _): &(usize, &str)| {
            let inner = self.source.get(index + 4..).unwrap_or("");
            let inner = inner.split(')').next().unwrap_or("");
            inner.trim_end().ends_with(&ending)
        };
        tests
            .into_iter()
            .find(of_field)
            .map_or(0, |(index, _)| index + 3)
    }

    fn error(&self, at: usize, error: &str) -> String {
        let before = self.source.get(..at).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        with_source_line(self.source, line, column, error)
    }
}

fn result_of(function: &str) -> Kind<'static> {
    match function {
        "size" | "int" | "indexOf" | "lastIndexOf" => Kind::Int,
        "string" | "lowerAscii" | "upperAscii" | "trim" | "substring" | "join" | "charAt" => {
            Kind::String
        }
        "startsWith" | "endsWith" | "matches" | "isQuantity" | "isURL" | "isIP" | "isCIDR"
        | "hasValue" | "isSorted" => Kind::Bool,
        _ => Kind::Dyn,
    }
}
