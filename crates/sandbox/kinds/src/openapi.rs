//! OpenAPI v3 documents for built-in and custom kinds.
//!
//! They have what kubectl needs: the components of each kind with all references, and for each path
//! the action, the kind and the query parameters. `kubectl explain` finds fields, `kubectl apply`
//! finds merge keys, and kubectl detects server-side field validation.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{Kind, type_info};

const REF: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const DEFINITIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";

#[derive(Clone, Debug)]
pub struct Resource<'a> {
    pub kind: &'a str,
    pub plural: &'a str,
    pub namespaced: bool,
    pub verbs: Vec<&'a str>,
    pub subresources: Vec<Subresource<'a>>,
    /// Component name; see [`component_name`] for custom kinds.
    pub component: String,
    pub schema: &'a Value,
}

#[derive(Clone, Debug)]
pub struct Subresource<'a> {
    pub name: &'a str,
    /// Group, version and kind of request and response.
    pub gvk: (&'a str, &'a str, &'a str),
    pub verbs: Vec<&'a str>,
}

impl<'a> From<&'a Kind> for Resource<'a> {
    fn from(kind: &'a Kind) -> Self {
        let convert = |subresource: &'a crate::Subresource| Subresource {
            name: subresource.name,
            gvk: (subresource.group, subresource.version, subresource.kind),
            verbs: subresource.verbs.to_vec(),
        };
        Self {
            kind: kind.kind,
            plural: kind.plural,
            namespaced: kind.namespaced,
            verbs: kind.verbs.to_vec(),
            subresources: kind.subresources.iter().map(convert).collect(),
            component: kind.component.to_owned(),
            schema: type_info::schema(kind),
        }
    }
}

/// Component name of a custom kind: `io.vitistack.v1alpha1.Machine`.
pub fn component_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// `/openapi/v3`, from the paths of the documents (`apis/apps/v1`) and their hashes.
pub fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let paths: Map<String, Value> = documents
        .into_iter()
        .map(|(path, hash)| {
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path.to_owned(), json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

pub fn document(group: &str, version: &str, resources: &[Resource<'_>]) -> Value {
    let mut components = BTreeMap::new();
    let mut paths = Map::new();
    let root = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    for resource in resources {
        add_components(group, version, resource, &mut components);
        add_paths(&root, (group, version), resource, &mut paths);
    }
    for name in ["DeleteOptions", "Status", "Patch"] {
        add_with_references(&format!("{META}{name}"), &mut components);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "sandbox"},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"},
            },
        },
    })
}

fn add_components(
    group: &str,
    version: &str,
    resource: &Resource<'_>,
    components: &mut BTreeMap<String, Value>,
) {
    let name = &resource.component;
    if type_info::component(name).is_some() {
        add_with_references(name, components);
        add_with_references(&format!("{name}List"), components);
    } else {
        let gvk = |kind: &str| json!([{"group": group, "version": version, "kind": kind}]);
        let mut schema = resource.schema.clone();
        if let Some(fields) = schema.as_object_mut() {
            fields.insert(
                "x-kubernetes-group-version-kind".to_owned(),
                gvk(resource.kind),
            );
            if let Some(properties) = crate::value::child(fields, "properties") {
                let text = json!({"type": "string"});
                properties
                    .entry("apiVersion")
                    .or_insert_with(|| text.clone());
                properties.entry("kind").or_insert(text);
                let metadata = json!({"allOf": [reference(&format!("{META}ObjectMeta"))]});
                properties.insert("metadata".to_owned(), metadata);
            }
        }
        components.insert(name.clone(), schema);
        let list = json!({
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"allOf": [reference(&format!("{META}ListMeta"))]},
                "items": {"type": "array", "items": reference(name)},
            },
            "x-kubernetes-group-version-kind": gvk(&format!("{}List", resource.kind)),
        });
        components.insert(format!("{name}List"), list);
        add_with_references(&format!("{META}ObjectMeta"), components);
        add_with_references(&format!("{META}ListMeta"), components);
    }
    for below in &resource.subresources {
        if let Some(name) = component_of(below.gvk) {
            add_with_references(name, components);
        }
    }
}

fn component_of((group, _, kind): (&str, &str, &str)) -> Option<&'static str> {
    Some(match (group, kind) {
        ("autoscaling", "Scale") => "io.k8s.api.autoscaling.v1.Scale",
        ("policy", "Eviction") => "io.k8s.api.policy.v1.Eviction",
        ("authentication.k8s.io", "TokenRequest") => "io.k8s.api.authentication.v1.TokenRequest",
        ("", "Binding") => "io.k8s.api.core.v1.Binding",
        _ => return None,
    })
}

fn add_with_references(name: &str, components: &mut BTreeMap<String, Value>) {
    let mut pending = vec![name.to_owned()];
    while let Some(name) = pending.pop() {
        if components.contains_key(&name) {
            continue;
        }
        if let Some(schema) = type_info::component(&name) {
            references(schema, &mut pending);
            components.insert(name, schema.clone());
        }
    }
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value.as_str()) {
                    ("$ref", Some(target)) => found.push(target.trim_start_matches(REF).to_owned()),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn reference(component: &str) -> Value {
    json!({"$ref": format!("{REF}{component}")})
}

fn add_paths(
    root: &str,
    (group, version): (&str, &str),
    resource: &Resource<'_>,
    paths: &mut Map<String, Value>,
) {
    let gvk = (group, version, resource.kind);
    let component = resource.component.as_str();
    let list = format!("{component}List");
    let plural = resource.plural;
    let collection = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{root}/{plural}")
    };
    let has = |verb: &str| resource.verbs.contains(&verb);
    let mut operations = Map::new();
    for (verb, method, action, answer) in [
        ("list", "get", "list", list.as_str()),
        ("create", "post", "post", component),
        ("deletecollection", "delete", "deletecollection", "Status"),
    ] {
        if has(verb) {
            operations.insert(method.to_owned(), operation(action, gvk, component, answer));
        }
    }
    add_path(paths, &collection, operations, resource.namespaced, false);
    if resource.namespaced && has("list") {
        let operations =
            Map::from_iter([("get".to_owned(), operation("list", gvk, component, &list))]);
        add_path(paths, &format!("{root}/{plural}"), operations, false, false);
    }
    let item = format!("{collection}/{{name}}");
    add_path(
        paths,
        &item,
        item_operations(&resource.verbs, gvk, component),
        resource.namespaced,
        true,
    );
    for below in &resource.subresources {
        let component = component_of(below.gvk).unwrap_or(component);
        let mut operations = item_operations(&below.verbs, below.gvk, component);
        if below.verbs.contains(&"create") {
            operations.insert(
                "post".to_owned(),
                operation("post", below.gvk, component, component),
            );
        }
        let path = format!("{item}/{}", below.name);
        add_path(paths, &path, operations, resource.namespaced, true);
    }
}

fn item_operations(verbs: &[&str], gvk: (&str, &str, &str), component: &str) -> Map<String, Value> {
    let known = [
        ("get", "get", component),
        ("update", "put", component),
        ("patch", "patch", component),
        ("delete", "delete", "Status"),
    ];
    known
        .into_iter()
        .filter(|(verb, _, _)| verbs.contains(verb))
        .map(|(_, method, answer)| (method.to_owned(), operation(method, gvk, component, answer)))
        .collect()
}

fn add_path(
    paths: &mut Map<String, Value>,
    path: &str,
    operations: Map<String, Value>,
    namespaced: bool,
    named: bool,
) {
    if operations.is_empty() {
        return;
    }
    let in_path = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}});
    let mut parameters = Vec::new();
    parameters.extend(named.then(|| in_path("name")));
    parameters.extend(namespaced.then(|| in_path("namespace")));
    parameters.push(query("pretty", "string"));
    let mut entry = operations;
    entry.insert("parameters".to_owned(), parameters.into());
    paths.insert(path.to_owned(), entry.into());
}

fn query(name: &str, type_: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": type_, "uniqueItems": true}})
}

const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const PATCH: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];
const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

fn operation(action: &str, gvk: (&str, &str, &str), component: &str, answer: &str) -> Value {
    let (group, version, kind) = gvk;
    let (parameters, media, body) = match action {
        "list" => (LIST, &[][..], None),
        "post" | "put" => (WRITE, &["*/*"][..], Some(component.to_owned())),
        "patch" => (PATCH, patches(component), Some(format!("{META}Patch"))),
        "delete" | "deletecollection" => {
            (DELETE, &["*/*"][..], Some(format!("{META}DeleteOptions")))
        }
        _ => (&[][..], &[][..], None),
    };
    let answer = match answer {
        "Status" => reference(&format!("{META}Status")),
        component => reference(component),
    };
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, type_)| query(name, type_))
        .collect();
    let mut operation = json!({
        "parameters": parameters,
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": answer}}},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    });
    if let (Some(body), Some(fields)) = (body, operation.as_object_mut()) {
        let content: Map<String, Value> = media
            .iter()
            .map(|media| ((*media).to_owned(), json!({"schema": reference(&body)})))
            .collect();
        fields.insert("requestBody".to_owned(), json!({"content": content}));
    }
    operation
}

/// CustomResourceDefinitions and custom kinds do not support strategic merge patch.
fn patches(component: &str) -> &'static [&'static str] {
    const ALL: &[&str] = &[
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ];
    let built_in = type_info::component(component).is_some() && !component.starts_with(DEFINITIONS);
    if built_in { ALL } else { ALL.split_at(3).0 }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Resource, component_name, document};

    fn unresolved(document: &Value) -> Vec<String> {
        let mut names = Vec::new();
        super::references(document, &mut names);
        names.retain(|name| document["components"]["schemas"].get(name).is_none());
        names
    }

    #[test]
    fn documents_resolve_all_references() {
        for (group, version) in [("", "v1"), ("apps", "v1"), ("apiextensions.k8s.io", "v1")] {
            let kinds = crate::all().iter().filter(|kind| kind.group == group);
            let resources: Vec<Resource<'_>> = kinds.map(Resource::from).collect();
            assert_eq!(
                unresolved(&document(group, version, &resources)),
                Vec::<String>::new()
            );
        }
    }

    #[test]
    fn custom_kinds_get_metadata_and_field_validation() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
        let machine = Resource {
            kind: "Machine",
            plural: "machines",
            namespaced: true,
            verbs: crate::STORED_VERBS.to_vec(),
            subresources: Vec::new(),
            component: component_name("vitistack.io", "v1alpha1", "Machine"),
            schema: &schema,
        };
        let document = document("vitistack.io", "v1alpha1", &[machine]);
        assert_eq!(unresolved(&document), Vec::<String>::new());
        let component = &document["components"]["schemas"]["io.vitistack.v1alpha1.Machine"];
        assert!(component["properties"]["metadata"]["allOf"].is_array());
        let item = "/apis/vitistack.io/v1alpha1/namespaces/{namespace}/machines/{name}";
        let patch = &document["paths"][item]["patch"];
        let names: Vec<_> = patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| &p["name"])
            .collect();
        assert!(names.contains(&&json!("fieldValidation")));
        assert_eq!(
            patch["requestBody"]["content"].as_object().unwrap().len(),
            3
        );
    }
}
