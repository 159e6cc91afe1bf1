//! Shapes from OpenAPI v3 schemas.
//!
//! Named types are read once each, from a queue, so that recursive types end and a chain of
//! references does not nest calls.

use std::collections::BTreeMap;

use serde_json::{Map as JsonMap, Value};

use super::{
    Atom, DEDUCED, Field, List, Map, PatchMeta, Scalar, TypeRef, UNTYPED, common_types, object_meta,
};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
/// Bound on references in a row, for cycles of references only.
const MAX_ALIASES: usize = 16;

pub(super) fn read(
    schema: &Value,
    resolve: &dyn Fn(&str) -> Option<Value>,
) -> (Vec<Atom>, TypeRef) {
    let mut reader = Reader {
        types: common_types(),
        named: BTreeMap::new(),
        queue: Vec::new(),
        resolve,
        object_meta: None,
    };
    let schema = follow(schema.clone(), resolve).unwrap_or(Value::Null);
    let root = reader.reserve();
    let atom = reader.atom(
        &schema,
        Scope {
            preserve: false,
            is_object: true,
        },
    );
    reader.define(root, atom);
    while let Some((index, schema)) = reader.queue.pop() {
        let atom = reader.atom(
            &schema,
            Scope {
                preserve: false,
                is_object: false,
            },
        );
        reader.define(index, atom);
    }
    (reader.types, TypeRef::to(root))
}

/// Context of a schema.
#[derive(Clone, Copy)]
struct Scope {
    /// A schema that preserves unknown fields does so for all inside it.
    preserve: bool,
    /// A whole object, with `apiVersion`, `kind` and `metadata`.
    is_object: bool,
}

struct Reader<'a> {
    types: Vec<Atom>,
    named: BTreeMap<String, usize>,
    queue: Vec<(usize, Value)>,
    resolve: &'a dyn Fn(&str) -> Option<Value>,
    object_meta: Option<usize>,
}

impl Reader<'_> {
    fn reserve(&mut self) -> usize {
        self.types.push(Atom::default());
        self.types.len() - 1
    }

    fn define(&mut self, index: usize, atom: Atom) {
        if let Some(slot) = self.types.get_mut(index) {
            *slot = atom;
        }
    }

    fn type_ref(&mut self, schema: &Value, preserve: bool) -> TypeRef {
        if let Some(reference) = reference(schema) {
            return TypeRef {
                atomic: map_atomic(schema),
                ..self.named(reference)
            };
        }
        let index = self.reserve();
        let atom = self.atom(
            schema,
            Scope {
                preserve,
                is_object: false,
            },
        );
        self.define(index, atom);
        TypeRef::to(index)
    }

    fn named(&mut self, reference: &str) -> TypeRef {
        if let Some(index) = self.named.get(reference) {
            return TypeRef::to(*index);
        }
        let Some(schema) =
            (self.resolve)(reference).and_then(|schema| follow(schema, self.resolve))
        else {
            return DEDUCED;
        };
        let index = self.reserve();
        self.named.insert(reference.to_owned(), index);
        match reference.rsplit('/').next() {
            Some(QUANTITY) => self.define(index, scalar(Scalar::Any)),
            Some(RAW_EXTENSION) => {
                if let Some(untyped) = self.types.get(UNTYPED.index).cloned() {
                    self.define(index, untyped);
                }
            }
            _ => self.queue.push((index, schema)),
        }
        TypeRef::to(index)
    }

    fn object_meta(&mut self) -> TypeRef {
        if let Some(index) = self.object_meta {
            return TypeRef::to(index);
        }
        let index = self.reserve();
        self.object_meta = Some(index);
        self.queue.push((index, object_meta::schema()));
        TypeRef::to(index)
    }

    fn atom(&mut self, schema: &Value, scope: Scope) -> Atom {
        let preserve = scope.preserve || flag(schema, "x-kubernetes-preserve-unknown-fields");
        let scope = Scope {
            preserve,
            is_object: scope.is_object || flag(schema, "x-kubernetes-embedded-resource"),
        };
        match schema.get("type").and_then(Value::as_str) {
            None => Atom {
                scalar: Some(Scalar::Any),
                list: Some(self.list(schema, scope)),
                map: Some(self.map(schema, scope)),
            },
            Some("object") => Atom {
                map: Some(self.map(schema, scope)),
                ..Atom::default()
            },
            Some("array") => Atom {
                list: Some(self.list(schema, scope)),
                ..Atom::default()
            },
            Some("integer" | "number") => scalar(Scalar::Numeric),
            Some("boolean") => scalar(Scalar::Boolean),
            Some("string") => match schema.get("format").and_then(Value::as_str) {
                None | Some("" | "byte") => scalar(Scalar::String),
                Some(_) => scalar(Scalar::Any),
            },
            Some(_) => scalar(Scalar::Any),
        }
    }

    fn map(&mut self, schema: &Value, scope: Scope) -> Map {
        let none = JsonMap::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&none);
        let required: Vec<_> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut fields = BTreeMap::new();
        for (name, property) in properties {
            let given = name != "metadata" || !scope.is_object || reference(property).is_some();
            let field = Field {
                reference: if given {
                    self.type_ref(property, scope.preserve)
                } else {
                    self.object_meta()
                },
                default: property
                    .get("default")
                    .filter(|default| !default.is_null())
                    .cloned(),
                required: required.contains(&name.as_str()),
                patch: patch_meta(property),
            };
            fields.insert(name.clone(), field);
        }
        if scope.is_object {
            self.declare_type_meta(&mut fields);
        }
        let element = match schema.get("additionalProperties") {
            Some(Value::Bool(allowed)) => allowed.then_some(DEDUCED),
            Some(element) => Some(self.type_ref(element, scope.preserve)),
            None => (scope.preserve || fields.is_empty()).then_some(DEDUCED),
        };
        Map {
            fields,
            element,
            atomic: map_atomic(schema).unwrap_or(false),
        }
    }

    fn declare_type_meta(&mut self, fields: &mut BTreeMap<String, Field>) {
        for name in ["apiVersion", "kind", "metadata"] {
            if fields.contains_key(name) {
                continue;
            }
            let reference = if name == "metadata" {
                self.object_meta()
            } else {
                let index = self.reserve();
                self.define(index, scalar(Scalar::String));
                TypeRef::to(index)
            };
            let field = Field {
                reference,
                default: None,
                required: false,
                patch: PatchMeta::default(),
            };
            fields.insert(name.to_owned(), field);
        }
    }

    fn list(&mut self, schema: &Value, scope: Scope) -> List {
        let element = schema
            .get("items")
            .map_or(UNTYPED, |items| self.type_ref(items, scope.preserve));
        let (atomic, keys) = list_relationship(schema);
        List {
            element,
            atomic,
            keys,
        }
    }
}

fn scalar(scalar: Scalar) -> Atom {
    Atom {
        scalar: Some(scalar),
        ..Atom::default()
    }
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// The type that a schema refers to: its `$ref`, or that of the only member of its `allOf`, which
/// is used to add a description or a default.
fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str).or_else(|| {
        match schema.get("allOf")?.as_array()?.as_slice() {
            [only] => only.get("$ref")?.as_str(),
            _ => None,
        }
    })
}

/// Resolves named types that are only another name of a schema.
fn follow(mut schema: Value, resolve: &dyn Fn(&str) -> Option<Value>) -> Option<Value> {
    for _ in 0..MAX_ALIASES {
        match reference(&schema) {
            None => return Some(schema),
            Some(reference) => schema = resolve(reference)?,
        }
    }
    None
}

fn map_atomic(schema: &Value) -> Option<bool> {
    match schema.get("x-kubernetes-map-type")?.as_str()? {
        "atomic" => Some(true),
        "granular" => Some(false),
        _ => None,
    }
}

/// Whether the list is replaced as a whole, and the keys of its items.
///
/// Types that only have strategic merge patch extensions get the equivalent of those.
fn list_relationship(schema: &Value) -> (bool, Vec<String>) {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => return (false, Vec::new()),
        Some("map") => {
            let keys = schema
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array);
            let keys = keys
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned);
            return (false, keys.collect());
        }
        Some(_) => return (true, Vec::new()),
        None => {}
    }
    let meta = patch_meta(schema);
    let merges = meta.strategies.iter().any(|strategy| strategy == "merge");
    (
        !merges,
        meta.merge_key.filter(|_| merges).into_iter().collect(),
    )
}

fn patch_meta(schema: &Value) -> PatchMeta {
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    PatchMeta {
        strategies: text("x-kubernetes-patch-strategy")
            .map(|strategies| strategies.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
        merge_key: text("x-kubernetes-patch-merge-key").map(str::to_owned),
    }
}
