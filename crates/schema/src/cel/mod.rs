//! CEL rules, evaluated by a real CEL library with the functions that Kubernetes adds.

mod functions;

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use functions::FUNCTIONS;
use kube_cel::cel::{
    Context, Program, Value as CelValue,
    objects::{Key, Map as CelMap},
};
use serde_json::{Map, Value};

use crate::{
    CompileError, Problem, Violation,
    node::{ListType, Node, WrittenRule},
    path::Path,
};

/// A rule, parsed.
pub(crate) struct Rule {
    source: String,
    program: Program,
    message: Option<String>,
    message_program: Option<Program>,
    field_path: Option<String>,
    is_transition: bool,
}

impl Rule {
    pub(crate) fn compile(written: WrittenRule, path: &Path) -> Result<Self, CompileError> {
        let parse = |source: &str| {
            Program::compile(source).map_err(|errors| CompileError::Rule {
                path: path.to_string(),
                rule: source.to_owned(),
                message: errors.to_string(),
            })
        };
        let program = parse(&written.rule)?;
        Ok(Self {
            is_transition: program.references().has_variable("oldSelf"),
            program,
            message_program: written
                .message_expression
                .as_deref()
                .map(parse)
                .transpose()?,
            source: written.rule,
            message: written.message,
            field_path: written.field_path,
        })
    }

    fn check(&self, scope: &Context<'_>, value: &Value, path: &Path) -> Option<Violation> {
        let detail = match self.program.execute(scope) {
            Ok(CelValue::Bool(true)) => return None,
            Ok(CelValue::Bool(false)) => self.message(scope),
            Ok(_) => format!("rule {:?} does not say yes or no", self.source),
            Err(error) => format!("rule {:?} cannot be evaluated: {error}", self.source),
        };
        let shown = match value {
            Value::Object(_) | Value::Array(_) => None,
            scalar => Some(scalar.clone()),
        };
        // A field path is written relative to the value, with a dot in front.
        let path = match &self.field_path {
            Some(field) => path.child(field.trim_start_matches('.')),
            None => path.clone(),
        };
        Some(Violation::new(
            &path,
            Problem::Invalid {
                value: shown,
                detail,
            },
        ))
    }

    fn message(&self, scope: &Context<'_>) -> String {
        let computed =
            self.message_program
                .as_ref()
                .and_then(|program| match program.execute(scope) {
                    Ok(CelValue::String(text)) => Some(text.to_string()),
                    _ => None,
                });
        computed
            .or_else(|| self.message.clone())
            .unwrap_or_else(|| format!("failed rule: {}", self.source))
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rule").field(&self.source).finish()
    }
}

/// Checks all rules of an object. A rule is passed over when what it looks at holds one of
/// `blocked`, the fields whose structure is wrong.
pub(crate) fn check(
    root: &Node,
    object: &Value,
    old: Option<&Value>,
    blocked: &BTreeSet<String>,
    found: &mut Vec<Violation>,
) {
    let walk = Walk { blocked };
    walk.check(root, object, old, &Path::root(), true, found);
}

struct Walk<'a> {
    blocked: &'a BTreeSet<String>,
}

impl Walk<'_> {
    fn check(
        &self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        path: &Path,
        is_object: bool,
        found: &mut Vec<Violation>,
    ) {
        if !node.rules.is_empty() && !path.holds_one_of(self.blocked) {
            let mut scope = FUNCTIONS.new_inner_scope();
            scope.add_variable_from_value("self", to_cel(node, value, is_object));
            if let Some(old) = old {
                scope.add_variable_from_value("oldSelf", to_cel(node, old, is_object));
            }
            let rules = node
                .rules
                .iter()
                .filter(|rule| old.is_some() || !rule.is_transition);
            found.extend(rules.filter_map(|rule| rule.check(&scope, value, path)));
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let Some((schema, path)) = node.field_at(name, path) else {
                        continue;
                    };
                    if schema.drops(value) {
                        continue;
                    }
                    let old = old
                        .and_then(|old| old.get(name))
                        .filter(|old| !schema.drops(old));
                    self.check(schema, value, old, &path, schema.embedded_resource, found);
                }
            }
            Value::Array(items) => {
                let Some(schema) = &node.items else { return };
                for (index, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| same_item(&node.list, item, old));
                    self.check(
                        schema,
                        item,
                        old,
                        &path.index(index),
                        schema.embedded_resource,
                        found,
                    );
                }
            }
            _ => {}
        }
    }
}

/// The item of the old list that `item` was: only lists that are maps tell.
fn same_item<'a>(list: &ListType, item: &Value, old: &'a Value) -> Option<&'a Value> {
    let ListType::Map(keys) = list else {
        return None;
    };
    old.as_array()?
        .iter()
        .find(|old| keys.iter().all(|key| old.get(key) == item.get(key)))
}

/// A value as rules see it: fields that the schema does not know, and nulls, are not there.
fn to_cel(node: &Node, value: &Value, is_object: bool) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => CelValue::Int(number),
            (None, Some(number), _) => CelValue::UInt(number),
            (None, None, number) => CelValue::Float(number.unwrap_or(f64::NAN)),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => {
            let schema = node.items.as_deref().unwrap_or(node);
            CelValue::List(Arc::new(
                items
                    .iter()
                    .map(|item| to_cel(schema, item, schema.embedded_resource))
                    .collect(),
            ))
        }
        Value::Object(fields) => {
            let mut map = HashMap::with_capacity(fields.len());
            for (name, value) in fields {
                if let Some(schema) = node.properties.get(name) {
                    if !schema.drops(value) {
                        map.insert(
                            key(&escaped(name)),
                            to_cel(schema, value, schema.embedded_resource),
                        );
                    }
                } else if let Some(schema) = &node.additional_properties {
                    map.insert(key(name), to_cel(schema, value, schema.embedded_resource));
                }
            }
            if is_object {
                add_object_fields(fields, &mut map);
            }
            CelValue::Map(CelMap { map: Arc::new(map) })
        }
    }
}

/// What rules see of every object: its type and its name.
fn add_object_fields(fields: &Map<String, Value>, map: &mut HashMap<Key, CelValue>) {
    let text = |value: &str| CelValue::String(Arc::new(value.to_owned()));
    for name in ["apiVersion", "kind"] {
        if let Some(value) = fields.get(name).and_then(Value::as_str) {
            map.insert(key(name), text(value));
        }
    }
    let metadata = fields.get("metadata");
    let mut names = HashMap::new();
    for name in ["name", "generateName"] {
        if let Some(value) = metadata.and_then(|metadata| metadata.get(name)?.as_str()) {
            names.insert(key(name), text(value));
        }
    }
    // A rule on the name of an object that has none yet sees an empty one.
    names.entry(key("name")).or_insert_with(|| text(""));
    map.insert(
        key("metadata"),
        CelValue::Map(CelMap {
            map: Arc::new(names),
        }),
    );
}

fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

/// The name of a field as rules write it.
fn escaped(name: &str) -> String {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
