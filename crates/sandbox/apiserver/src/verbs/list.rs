//! List: selectors, pagination and resourceVersion semantics.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Call;
use crate::{
    ApiError, ApiResult, Cause, Details,
    body::Body,
    object,
    output::{self, Output},
    registry::{Resource, Source},
    request::Query,
    selector::Selector,
    store::{RevisionUnavailable, Snapshot, Stored},
    table_convertor,
};

/// Label and field selectors of a request.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    labels: Selector,
    fields: Selector,
}

impl Selection {
    pub fn parse(resource: &Resource, query: &Query) -> Result<Self, ApiError> {
        let labels = Selector::labels(query.get("labelSelector")).map_err(ApiError::bad_request)?;
        let fields = Selector::fields(query.get("fieldSelector")).map_err(ApiError::bad_request)?;
        for key in fields.keys() {
            field(resource, &Value::Null, key).map_err(ApiError::bad_request)?;
        }
        Ok(Self { labels, fields })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    pub fn matches(&self, resource: &Resource, stored: &Stored) -> bool {
        if !self
            .labels
            .matches(|key| stored.label(key).map(Cow::Borrowed))
        {
            return false;
        }
        if self.fields.is_everything() {
            return true;
        }
        let by_key_alone = self
            .fields
            .keys()
            .all(|key| matches!(key, "metadata.name" | "metadata.namespace"));
        let value = if by_key_alone {
            Value::Null
        } else {
            output::value(resource, stored)
        };
        self.fields.matches(|key| {
            Some(match key {
                "metadata.name" => Cow::Borrowed(stored.name()),
                "metadata.namespace" => Cow::Borrowed(stored.namespace()),
                key => Cow::Owned(field(resource, &value, key).unwrap_or_default()),
            })
        })
    }
}

/// Value of a selectable field, or why it is not selectable.
fn field(resource: &Resource, object: &Value, key: &str) -> Result<String, String> {
    match &resource.source {
        Source::BuiltIn(kind) => kinds::field_value(kind, object, key),
        Source::Custom(_) if key == "metadata.name" => Ok(object::meta(object, "name").to_owned()),
        Source::Custom(_) if key == "metadata.namespace" && resource.namespaced => {
            Ok(object::meta(object, "namespace").to_owned())
        }
        Source::Custom(custom) => custom
            .selectable
            .iter()
            .find(|path| path.text().trim_start_matches('.') == key)
            .map(|path| match path.first(object) {
                None => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            })
            .ok_or_else(|| format!("field label not supported: {key}")),
    }
}

/// Continue token.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    v: String,
    rv: u64,
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Continue {
    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn decode(text: &str) -> Result<Self, String> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| "illegal base64 data".to_owned())?;
        let value = crate::decode::json(&bytes)?.value;
        serde_json::from_value(value)
            .ok()
            .filter(|token: &Self| token.v == TOKEN_VERSION)
            .ok_or_else(|| "server does not recognize this encoded version".to_owned())
    }
}

struct Page {
    objects: Vec<Arc<Stored>>,
    metadata: Value,
}

/// Lists the selected objects.
pub fn list(call: &Call<'_>) -> ApiResult {
    check_options(call.query)?;
    call.query.number("timeoutSeconds")?;
    let selection = Selection::parse(call.resource, call.query)?;
    let page = page(call, &selection)?;
    Ok(match call.output {
        Output::Json => call.respond(StatusCode::OK, stream(call.resource.clone(), page)),
        Output::Yaml => {
            let items: Vec<Value> = values(call, &page);
            let list = json!({
                "apiVersion": call.resource.api_version(),
                "kind": call.resource.list_kind,
                "metadata": page.metadata,
                "items": items,
            });
            call.respond(StatusCode::OK, Body::full(output::yaml(&list)))
        }
        Output::Table(include) => {
            let now = call.server.clock.now();
            let table = table_convertor::convert(
                call.resource,
                &values(call, &page),
                include,
                now,
                &page.metadata,
                true,
            );
            call.respond(StatusCode::OK, Body::full(output::to_bytes(&table)))
        }
        Output::Metadata => {
            let items: Vec<Value> = values(call, &page).iter().map(output::partial).collect();
            // kube-apiserver encodes a nil slice as null here.
            let items = (!items.is_empty()).then_some(items);
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": page.metadata,
                "items": items,
            });
            call.respond(StatusCode::OK, Body::full(output::to_bytes(&list)))
        }
    })
}

fn values(call: &Call<'_>, page: &Page) -> Vec<Value> {
    page.objects
        .iter()
        .map(|stored| output::value(call.resource, stored))
        .collect()
}

/// Selected objects, for deletecollection.
pub fn selected(call: &Call<'_>) -> Result<Vec<Arc<Stored>>, ApiError> {
    let selection = Selection::parse(call.resource, call.query)?;
    Ok(page(call, &selection)?.objects)
}

fn page(call: &Call<'_>, selection: &Selection) -> Result<Page, ApiError> {
    let limit = call
        .query
        .number("limit")?
        .and_then(|limit| usize::try_from(limit).ok())
        .filter(|limit| *limit > 0);
    let token = match call.query.get("continue") {
        "" => None,
        text => Some(Continue::decode(text).map_err(|why| {
            ApiError::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        })?),
    };
    let snapshot = snapshot(call, token.as_ref(), limit.is_some())?;
    let start = token.as_ref().map_or("", |token| token.start.as_str());
    let mut objects = Vec::new();
    let mut rest = snapshot
        .objects
        .into_iter()
        .filter(|stored| stored.key.as_ref() >= start)
        .collect::<VecDeque<_>>();
    let everything = selection.is_everything();
    let mut next = None;
    while let Some(stored) = rest.pop_front() {
        if !everything && !selection.matches(call.resource, &stored) {
            continue;
        }
        if limit.is_some_and(|limit| objects.len() >= limit) {
            rest.push_front(stored);
            next = rest.front().map(|stored| stored.key.to_string());
            break;
        }
        objects.push(stored);
    }
    let mut metadata = Map::new();
    metadata.insert(
        "resourceVersion".to_owned(),
        snapshot.revision.to_string().into(),
    );
    if let Some(start) = next {
        let token = Continue {
            v: TOKEN_VERSION.to_owned(),
            rv: snapshot.revision,
            start,
        };
        metadata.insert("continue".to_owned(), token.encode().into());
        if everything {
            metadata.insert("remainingItemCount".to_owned(), rest.len().into());
        }
    }
    Ok(Page {
        objects,
        metadata: metadata.into(),
    })
}

fn snapshot(
    call: &Call<'_>,
    token: Option<&Continue>,
    limited: bool,
) -> Result<Snapshot, ApiError> {
    let prefix = match call.namespace() {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    let store = &call.server.store;
    let table = &call.resource.table;
    if let Some(token) = token {
        return store
            .list_at(table, &prefix, token.rv)
            .map_err(|_| expired_continue(token, store.revision()));
    }
    let version = call.query.get("resourceVersion");
    let exact = match call.query.get("resourceVersionMatch") {
        "Exact" => true,
        "" => limited && !matches!(version, "" | "0"),
        _ => false,
    };
    if exact {
        let revision = parse_version(version)?;
        return store
            .list_at(table, &prefix, revision)
            .map_err(|unavailable| match unavailable {
                RevisionUnavailable::TooOld(_) => {
                    ApiError::expired("The resourceVersion for the provided list is too old.")
                }
                RevisionUnavailable::TooNew(newest) => too_new(revision, newest),
            });
    }
    call.server
        .check_revision(call.query)
        .map_err(|mut error| {
            if error.code == StatusCode::BAD_REQUEST {
                error.message = format!("invalid resource version: {}", error.message);
            }
            error
        })?;
    Ok(store.list(table, &prefix))
}

fn expired_continue(token: &Continue, newest: u64) -> ApiError {
    let fresh = Continue {
        v: TOKEN_VERSION.to_owned(),
        rv: newest,
        start: token.start.clone(),
    };
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    error.details = None;
    error.continue_token = Some(fresh.encode());
    error
}

/// Error for a resourceVersion that is not reached yet.
pub fn too_new(wanted: u64, newest: u64) -> ApiError {
    ApiError {
        details: Some(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
            retry_after_seconds: 1,
            ..Details::default()
        }),
        ..ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: Too large resource version: {wanted}, current: {newest}"),
        )
    }
}

pub fn parse_version(text: &str) -> Result<u64, ApiError> {
    match text {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            let violation = schema::Violation::at(
                "resourceVersion",
                schema::Problem::Invalid {
                    value: Some(text.into()),
                    detail: format!("strconv.ParseUint: parsing {text:?}: invalid syntax"),
                },
            );
            ApiError::bad_request(violation.to_string())
        }),
    }
}

/// Error for an option that conflicts with others.
pub fn forbidden(field: &str, detail: &str) -> ApiError {
    let problem = schema::Problem::Forbidden {
        detail: detail.to_owned(),
    };
    ApiError::invalid_options("ListOptions", field, problem)
}

/// Refuses options that contradict one another.
fn check_options(query: &Query) -> Result<(), ApiError> {
    let matching = query.get("resourceVersionMatch");
    let version = query.get("resourceVersion");
    let forbidden = |field: &str, detail: &str| Err(forbidden(field, detail));
    if query.has("sendInitialEvents") {
        return forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        );
    }
    match matching {
        "" => Ok(()),
        _ if !query.get("continue").is_empty() => forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden when continue is provided",
        ),
        _ if version.is_empty() => forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        "Exact" if version == "0" => forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        "Exact" | "NotOlderThan" => Ok(()),
        other => Err(ApiError::invalid_options(
            "ListOptions",
            "resourceVersionMatch",
            schema::Problem::Unsupported {
                value: other.into(),
                supported: vec!["Exact".into(), "NotOlderThan".into(), "".into()],
            },
        )),
    }
}

/// Streams a list as JSON.
fn stream(resource: Arc<Resource>, page: Page) -> Body {
    const CHUNK_BYTES: usize = 64 * 1024;
    // Items of built-in lists have no `apiVersion` and `kind`.
    let typed = resource.as_custom().is_some();
    let mut opening = BytesMut::new();
    opening.put_slice(
        format!(
            r#"{{"kind":{:?},"apiVersion":{:?},"metadata":{},"items":["#,
            resource.list_kind,
            resource.api_version(),
            page.metadata
        )
        .as_bytes(),
    );
    if page.objects.is_empty() {
        opening.put_slice(b"]}\n");
        return Body::full(opening.freeze());
    }
    let objects: VecDeque<Arc<Stored>> = page.objects.into();
    Body::stream(stream::unfold(
        (Some(opening), objects),
        move |(opening, mut objects)| {
            let resource = resource.clone();
            async move {
                let mut chunk = match opening {
                    Some(opening) => opening,
                    None if objects.is_empty() => return None,
                    None => BytesMut::new(),
                };
                while chunk.len() < CHUNK_BYTES {
                    let Some(stored) = objects.pop_front() else {
                        break;
                    };
                    output::write_json(&resource, &stored, typed, &mut chunk);
                    chunk.put_slice(if objects.is_empty() { b"]}\n" } else { b"," });
                }
                let chunk: Bytes = chunk.freeze();
                Some((chunk, (None, objects)))
            }
        },
    ))
}
