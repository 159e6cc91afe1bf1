//! CDI's webhook for DataVolumes in the sandbox's API server: authorization of clones.
//!
//! As in CDI's `datavolume-mutate` webhook, by a SubjectAccessReview of the requester: a clone from
//! another namespace needs `create` on `datavolumes/source` there. The right to create pods there
//! also suffices; for a snapshot also the right to create claims is needed. The clone token that
//! CDI adds is left out, since no pod here needs it.

use std::sync::Arc;

use apiserver::{Admission, Cause, Denial, Operation, Refusal, Review};
use http::StatusCode;
use serde_json::Value;

const GROUP: &str = "cdi.kubevirt.io";
const WEBHOOK: &str = "datavolume-mutate.cdi.kubevirt.io";
/// Annotations of volumes that need no right to a source, since they are or may be populated.
const WITHOUT_SOURCE: [&str; 2] = [
    "cdi.kubevirt.io/storage.prePopulated",
    "cdi.kubevirt.io/storage.checkStaticVolume",
];

pub(crate) fn admission() -> Arc<dyn Admission> {
    Arc::new(CloneAuthorization)
}

#[derive(Debug)]
struct CloneAuthorization;

/// Source of a clone.
struct Source {
    is_snapshot: bool,
    namespace: String,
    name: String,
}

impl Admission for CloneAuthorization {
    fn mutate(&self, review: &Review<'_>, object: &mut Value) -> Result<(), Refusal> {
        let is_checked = review.group == GROUP
            && review.resource == "datavolumes"
            && review.subresource.is_empty()
            && matches!(review.operation, Operation::Create | Operation::Update);
        let metadata = &object["metadata"];
        let needs_none = WITHOUT_SOURCE.iter();
        let mut needs_none = needs_none.map(|name| &metadata["annotations"][*name]);
        if !is_checked
            || metadata["deletionTimestamp"].is_string()
            || needs_none.any(Value::is_string)
        {
            return Ok(());
        }
        match source(review, object)? {
            Some(source) => authorize(review, &source),
            None => Ok(()),
        }
    }

    fn validate(&self, _: &Review<'_>, _: Option<&Value>) -> Result<Vec<String>, Refusal> {
        Ok(Vec::new())
    }
}

/// Source of a clone, from the DataVolume or its DataSource.
fn source(review: &Review<'_>, volume: &Value) -> Result<Option<Source>, Refusal> {
    let reference = &volume["spec"]["sourceRef"];
    let found;
    let given = match volume["spec"].get("source") {
        Some(source) if !source.is_null() => source,
        _ if reference["kind"] == "DataSource" => {
            let within = text(&reference["namespace"]).unwrap_or(review.namespace);
            let name = text(&reference["name"]).unwrap_or_default();
            found = review
                .find(GROUP, "datasources", within, name)
                .ok_or_else(|| missing("datasources.cdi.kubevirt.io", name))?;
            &found["spec"]["source"]
        }
        _ => return Ok(None),
    };
    let copied = |field: &str, is_snapshot: bool| {
        let source = given.get(field).filter(|source| source.is_object())?;
        Some(Source {
            is_snapshot,
            namespace: text(&source["namespace"])
                .unwrap_or(review.namespace)
                .to_owned(),
            name: text(&source["name"]).unwrap_or_default().to_owned(),
        })
    };
    Ok(copied("pvc", false).or_else(|| copied("snapshot", true)))
}

fn authorize(review: &Review<'_>, source: &Source) -> Result<(), Refusal> {
    let Source {
        is_snapshot,
        namespace,
        name,
    } = source;
    if review.find("", "namespaces", "", namespace).is_none() {
        return Err(missing("namespaces", namespace));
    }
    let may = |group: &str, resource: &str, subresource: &str| {
        review.may_create(group, resource, subresource, namespace, name)
    };
    let is_allowed = namespace == review.namespace
        || may(GROUP, "datavolumes", "source")
        || (may("", "pods", "") && (!is_snapshot || may("", "pvcs", "")));
    if is_allowed {
        return Ok(());
    }
    let message = format!(
        "User {} has insufficient permissions in clone source namespace {namespace}",
        review.user.name
    );
    Err(Refusal::Denied(Denial {
        webhook: WEBHOOK,
        code: StatusCode::UNPROCESSABLE_ENTITY,
        // CDI puts a space before each cause.
        message: format!(" {message}"),
        causes: vec![Cause {
            reason: "FieldValueInvalid".to_owned(),
            message,
            field: "spec.source.PVC.namespace".to_owned(),
        }],
    }))
}

fn missing(resource: &str, name: &str) -> Refusal {
    Refusal::Denied(Denial {
        webhook: WEBHOOK,
        code: StatusCode::BAD_REQUEST,
        message: format!("{resource} {name:?} not found"),
        causes: Vec::new(),
    })
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}
