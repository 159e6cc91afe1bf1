//! Fields that exist in every object of a built-in kind.
//!
//! The server decodes built-in kinds into structures. A structure inside another is never absent: a
//! container always has `resources`, if only an empty one. Such fields have `{}` for their default
//! in OpenAPI. No one becomes the owner of a field by creating an object in which it exists anyway.

use serde_json::{Map, Value};

use super::{Shape, Type};

/// Bound on nested structures, for recursive schemas.
const MAX_DEPTH: usize = 32;

impl Shape {
    /// Object before any field is set: a creation is compared with it.
    pub fn empty_object(&self) -> Value {
        if self.structured {
            zero(self.root(), MAX_DEPTH)
        } else {
            Value::Object(Map::new())
        }
    }

    /// Adds the structures that an object of a built-in kind has, as the server does when it reads
    /// it: `resources: {}` of a container, `status: {}` of the object. Custom resources are left as
    /// they are.
    pub fn add_structures(&self, object: &mut Value) {
        if self.structured {
            add(self.root(), object, MAX_DEPTH);
        }
    }
}

fn zero(shape: Type<'_>, depth: usize) -> Value {
    let mut object = Map::new();
    let Some(map) = shape.map().filter(|_| depth > 0) else {
        return Value::Object(object);
    };
    for (name, field) in &map.map.fields {
        let inner = map.field_or_any(name);
        if is_structure(inner, field.default.as_ref()) {
            object.insert(name.clone(), zero(inner, depth - 1));
        } else if field.required {
            object.insert(name.clone(), field.default.clone().unwrap_or(Value::Null));
        }
    }
    Value::Object(object)
}

/// `depth` bounds how many structures are added inside each other, not how deep the object is.
fn add(shape: Type<'_>, value: &mut Value, depth: usize) {
    match value {
        Value::Array(items) => {
            if let Some(list) = shape.list() {
                for item in items {
                    add(list.element(), item, depth);
                }
            }
        }
        Value::Object(object) => {
            let Some(map) = shape.map() else { return };
            for (name, value) in &mut *object {
                add(map.field_or_any(name), value, depth);
            }
            for (name, field) in &map.map.fields {
                let inner = map.field_or_any(name);
                if depth > 0
                    && is_structure(inner, field.default.as_ref())
                    && object.get(name).is_none_or(Value::is_null)
                {
                    let mut structure = Value::Object(Map::new());
                    add(inner, &mut structure, depth - 1);
                    object.insert(name.clone(), structure);
                }
            }
        }
        _ => {}
    }
}

fn is_structure(shape: Type<'_>, default: Option<&Value>) -> bool {
    default
        .and_then(Value::as_object)
        .is_some_and(Map::is_empty)
        && shape.map().is_some_and(|map| !map.map.fields.is_empty())
}
