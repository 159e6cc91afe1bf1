//! Delete: grace periods, finalizers, preconditions and propagation.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{Call, list};
use crate::{
    ApiError, ApiResult, ObjectRef,
    admission::{self, WriteAttributes},
    body::Body,
    clock,
    controllers::crds,
    object, output,
    registry::Resource,
    serializer::ContentType,
    store::{FOREGROUND, Precondition, Stored, Write},
};

/// Finalizer of orphaning deletion.
pub const ORPHAN: &str = "orphan";

/// DeleteOptions.
#[derive(Clone, Debug, Default)]
pub struct Options {
    uid: Option<String>,
    resource_version: Option<String>,
    grace: Option<i64>,
    propagation: Option<Propagation>,
    dry_run: bool,
}

/// Propagation policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Options {
    /// Parses the options from body and query.
    pub fn parse(call: &Call<'_>, content: ContentType, body: &Bytes) -> Result<Self, ApiError> {
        let mut options = Self {
            dry_run: call.query.dry_run("DeleteOptions")?,
            grace: call.query.number("gracePeriodSeconds")?,
            propagation: Propagation::parse(call.query.get("propagationPolicy"))?,
            ..Self::default()
        };
        if call.query.flag("orphanDependents") {
            options.propagation = Some(Propagation::Orphan);
        }
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(options);
        }
        let given = content
            .read(body)
            .map_err(|error| {
                ApiError::bad_request(format!(
                    "couldn't get version/kind; json parse error: {error}"
                ))
            })?
            .value;
        let kind = given
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !matches!(kind, "" | "DeleteOptions") {
            let version = given
                .get("apiVersion")
                .and_then(Value::as_str)
                .unwrap_or_default();
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
            )));
        }
        let text = |pointer: &str| given.pointer(pointer)?.as_str().map(str::to_owned);
        if let (Some(policy), Some(Value::Bool(_))) =
            (text("/propagationPolicy"), given.get("orphanDependents"))
        {
            return Err(ApiError::invalid_options(
                "DeleteOptions",
                "propagationPolicy",
                schema::Problem::Invalid {
                    value: Some(policy.into()),
                    detail: "orphanDependents and deletionPropagation cannot be both set"
                        .to_owned(),
                },
            ));
        }
        options.uid = text("/preconditions/uid");
        options.resource_version = text("/preconditions/resourceVersion");
        if let Some(grace) = given
            .get("gracePeriodSeconds")
            .filter(|grace| !grace.is_null())
        {
            options.grace =
                Some(grace.as_i64().ok_or_else(|| {
                    ApiError::bad_request("gracePeriodSeconds must be an integer")
                })?);
        }
        if let Some(policy) = text("/propagationPolicy") {
            options.propagation = Propagation::parse(&policy)?;
        }
        if given.get("orphanDependents") == Some(&Value::Bool(true)) {
            options.propagation = Some(Propagation::Orphan);
        }
        if let Some(values) = given.get("dryRun").and_then(Value::as_array) {
            if values.iter().any(|value| value != "All") {
                return Err(ApiError::invalid_options(
                    "DeleteOptions",
                    "dryRun",
                    schema::Problem::Unsupported {
                        value: values.clone().into(),
                        supported: vec!["All".into()],
                    },
                ));
            }
            options.dry_run |= !values.is_empty();
        }
        Ok(options)
    }

    fn check(&self, call: &Call<'_>, name: &str, stored: &Stored) -> Result<(), ApiError> {
        let conflict = |why: &str| {
            Err(ApiError::conflict(
                ObjectRef {
                    group: &call.resource.group,
                    resource: &call.resource.kind,
                    name,
                },
                why,
            ))
        };
        if let Some(uid) = self.uid.as_deref().filter(|uid| **uid != *stored.uid) {
            return conflict(&format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                stored.uid
            ));
        }
        let revision = stored.revision.to_string();
        let wanted = self.resource_version.as_deref();
        if let Some(version) = wanted.filter(|version| *version != revision) {
            return conflict(&format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
            ));
        }
        Ok(())
    }
}

impl Propagation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }

    fn parse(text: &str) -> Result<Option<Self>, ApiError> {
        match text {
            "" => Ok(None),
            "Background" => Ok(Some(Self::Background)),
            "Foreground" => Ok(Some(Self::Foreground)),
            "Orphan" => Ok(Some(Self::Orphan)),
            other => Err(ApiError::invalid_options(
                "DeleteOptions",
                "propagationPolicy",
                schema::Problem::Unsupported {
                    value: other.into(),
                    supported: vec![
                        "Foreground".into(),
                        "Background".into(),
                        "Orphan".into(),
                        "nil".into(),
                    ],
                },
            )),
        }
    }
}

enum DeleteResult {
    Deleted(Value),
    /// The object waits for finalizers or its grace period.
    Terminating(Value),
}

pub async fn delete(call: &mut Call<'_>, content: ContentType, body: &Bytes) -> ApiResult {
    let options = Options::parse(call, content, body)?;
    let name = call.path.name.clone();
    Ok(match delete_one(call, &name, &options).await? {
        DeleteResult::Terminating(object) => call.respond_with_object(StatusCode::OK, &object),
        DeleteResult::Deleted(object) if returns_deleted(call.resource) => {
            call.respond_with_object(StatusCode::OK, &object)
        }
        DeleteResult::Deleted(object) => {
            let mut details = Map::new();
            details.insert("name".to_owned(), name.into());
            if !call.resource.group.is_empty() {
                details.insert("group".to_owned(), call.resource.group.clone().into());
            }
            details.insert("kind".to_owned(), call.resource.plural.clone().into());
            details.insert("uid".to_owned(), object::meta(&object, "uid").into());
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": "Success", "details": details,
            });
            call.respond(StatusCode::OK, Body::full(output::to_bytes(&status)))
        }
    })
}

pub async fn delete_collection(
    call: &mut Call<'_>,
    content: ContentType,
    body: &Bytes,
) -> ApiResult {
    let options = Options::parse(call, content, body)?;
    let mut items = Vec::new();
    let namespace = call.path.namespace.clone();
    for stored in list::selected(call)? {
        let name = stored.name().to_owned();
        let path = crate::request::ResourcePath {
            namespace: match stored.namespace() {
                "" => namespace.clone(),
                own => own.to_owned(),
            },
            name: name.clone(),
            ..call.path.clone()
        };
        let mut each = Call {
            path: &path,
            warnings: Vec::new(),
            manager: call.manager.clone(),
            server: call.server,
            resource: call.resource,
            query: call.query,
            user: call.user,
            output: call.output,
        };
        match delete_one(&mut each, &name, &options).await {
            Ok(DeleteResult::Deleted(object) | DeleteResult::Terminating(object)) => {
                items.push(object);
            }
            // Deleted concurrently.
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    if call.resource.as_custom().is_none() {
        for item in &mut items {
            let map = object::map_mut(item);
            map.remove("apiVersion");
            map.remove("kind");
        }
    }
    let list = json!({
        "kind": call.resource.list_kind,
        "apiVersion": call.resource.api_version(),
        "metadata": {"resourceVersion": call.server.store.revision().to_string()},
        "items": items,
    });
    Ok(call.respond(StatusCode::OK, Body::full(output::to_bytes(&list))))
}

/// Kinds whose deletion returns the object instead of a Status.
fn returns_deleted(resource: &Resource) -> bool {
    resource.group.is_empty()
        && matches!(
            resource.kind.as_str(),
            "Pod"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "ServiceAccount"
                | "ReplicationController"
                | "PodTemplate"
                | "ResourceQuota"
                | "Service"
        )
        || resource.kind == "StorageClass"
        || resource.kind == "VolumeAttachment"
        || resource.kind == "CSINode"
        || resource.kind == "CSIDriver"
}

/// A namespace also waits for the finalizers in its spec.
pub fn has_namespace_finalizers(resource: &Resource, object: &Value) -> bool {
    resource.table.group.is_empty()
        && resource.table.resource.as_ref() == "namespaces"
        && object
            .pointer("/spec/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|finalizers| !finalizers.is_empty())
}

async fn delete_one(
    call: &mut Call<'_>,
    name: &str,
    options: &Options,
) -> Result<DeleteResult, ApiError> {
    loop {
        let stored = call.stored()?;
        options.check(call, name, &stored)?;
        let old = output::value(call.resource, &stored);
        let write = WriteAttributes::delete(&old, options.dry_run);
        admission::validate(call, write, None).await?;
        let mut new = old.clone();
        let grace = mark_for_deletion(call, &mut new, &old, options);
        let waits = object::finalizers(&new).next().is_some()
            || grace > 0
            || has_namespace_finalizers(call.resource, &new);
        if options.dry_run {
            return Ok(if waits {
                DeleteResult::Terminating(new)
            } else {
                DeleteResult::Deleted(old)
            });
        }
        if waits && new == old {
            return Ok(DeleteResult::Terminating(old));
        }
        let write = if waits {
            Write::Put(call.to_stored(new))
        } else {
            Write::Remove(call.to_stored(new))
        };
        let id = call.id(name);
        if let Ok(written) =
            call.server
                .store
                .commit(&id, Precondition::Revision(stored.revision), write)
        {
            let object = output::value(call.resource, &written);
            return Ok(if waits {
                DeleteResult::Terminating(object)
            } else {
                DeleteResult::Deleted(object)
            });
        }
    }
}

/// Sets deletion metadata and returns the grace period in seconds.
fn mark_for_deletion(call: &Call<'_>, new: &mut Value, old: &Value, options: &Options) -> i64 {
    let propagation = options.propagation;
    let terminating = object::is_terminating(old);
    set_finalizer(new, FOREGROUND, propagation, Propagation::Foreground);
    set_finalizer(new, ORPHAN, propagation, Propagation::Orphan);
    if is_definition(call.resource) && !terminating {
        crds::begin_cleanup(new, &call.server.clock.timestamp());
    }
    let grace = grace(call.resource, old, options);
    let earlier = old
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64);
    let waits = object::finalizers(new).next().is_some()
        || grace > 0
        || has_namespace_finalizers(call.resource, new);
    let is_pod = call.resource.group.is_empty() && call.resource.kind == "Pod";
    if !waits && !is_pod {
        return 0;
    }
    if !terminating || earlier.is_some_and(|earlier| grace < earlier) {
        let now = call.server.clock.now();
        let until = now
            .checked_add(jiff::SignedDuration::from_secs(grace))
            .unwrap_or(now);
        object::set_meta(
            new,
            "deletionTimestamp",
            clock::format_seconds(until).into(),
        );
        if !has_namespace_finalizers(call.resource, new) {
            object::set_meta(new, "deletionGracePeriodSeconds", grace.into());
        }
        let generation = old.pointer("/metadata/generation").and_then(Value::as_i64);
        if !terminating
            && call.resource.has_generation()
            && let Some(generation) = generation
        {
            object::set_meta(new, "generation", generation.saturating_add(1).into());
        }
        if has_namespace_finalizers(call.resource, new) {
            object::child_mut(object::map_mut(new), "status")
                .insert("phase".to_owned(), "Terminating".into());
        }
        return grace;
    }
    earlier.unwrap_or(grace)
}

fn is_definition(resource: &Resource) -> bool {
    resource.group == "apiextensions.k8s.io" && resource.kind == "CustomResourceDefinition"
}

fn set_finalizer(
    object: &mut Value,
    finalizer: &str,
    requested: Option<Propagation>,
    own: Propagation,
) {
    let mut finalizers: Vec<String> = object::finalizers(object).map(str::to_owned).collect();
    match requested {
        None => return,
        Some(requested) if requested == own => {
            if !finalizers.iter().any(|one| one == finalizer) {
                finalizers.push(finalizer.to_owned());
            }
        }
        Some(_) => finalizers.retain(|one| one != finalizer),
    }
    let value = if finalizers.is_empty() {
        Value::Null
    } else {
        finalizers.into()
    };
    object::set_meta(object, "finalizers", value);
}

/// Grace period in seconds; only scheduled, unfinished pods have one.
fn grace(resource: &Resource, object: &Value, options: &Options) -> i64 {
    if !(resource.group.is_empty() && resource.kind == "Pod") {
        return 0;
    }
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    if text("/spec/nodeName").is_empty() || matches!(text("/status/phase"), "Succeeded" | "Failed")
    {
        return 0;
    }
    options.grace.map_or_else(
        || {
            object
                .pointer("/spec/terminationGracePeriodSeconds")
                .and_then(Value::as_i64)
                .unwrap_or(30)
        },
        // kube-apiserver treats a negative grace period as 1.
        |grace| if grace < 0 { 1 } else { grace },
    )
}
