//! What can be done with objects, one file a verb.

pub mod create;
pub mod delete;
pub mod get;
pub mod list;
pub mod patch;
pub mod scale;
pub mod update;
pub mod watch;

use std::sync::Arc;

use http::{Response, StatusCode, header};
use merge::managed::{self, Context};
use serde_json::Value;

use crate::{
    ApiError, ObjectRef,
    admission::warning_headers,
    auth::User,
    body::Body,
    object,
    output::{self, Output},
    registry::Resource,
    request::{FieldValidation, Query, ResourcePath},
    server::Shared,
    store::{ObjectId, Stored},
};

/// Who has said whose fields are whose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldOwnership {
    /// Nobody: what differs becomes the request's manager's.
    FromDiff,
    /// The change itself, as server-side apply does.
    FromApply,
}

/// What a write has come to.
#[derive(Debug)]
pub enum WriteResult {
    /// It is stored, and can be answered as it is.
    Stored(Arc<Stored>),
    /// Nothing is stored of it: it was a dry run, or the end of the object.
    NotStored(Value),
}

impl WriteResult {
    /// The object.
    pub fn into_value(self, resource: &Resource) -> Value {
        match self {
            Self::Stored(stored) => output::value(resource, &stored),
            Self::NotStored(object) => object,
        }
    }
}

/// A request for a resource, as far as it has been understood.
#[derive(Debug)]
pub struct Call<'a> {
    /// The server.
    pub server: &'a Arc<Shared>,
    /// The resource.
    pub resource: &'a Arc<Resource>,
    /// The path.
    pub path: &'a ResourcePath,
    /// The options.
    pub query: &'a Query,
    /// Who asks.
    pub user: &'a User,
    /// The form of the answer.
    pub output: Output,
    /// The manager of the fields that the request sets.
    pub manager: String,
    /// What to tell the client besides the answer.
    pub warnings: Vec<String>,
}

impl<'a> Call<'a> {
    /// The object that the path names.
    pub fn object_ref(&'a self) -> ObjectRef<'a> {
        self.object_ref_named(&self.path.name)
    }

    /// An object of this resource, for error texts.
    pub fn object_ref_named(&'a self, name: &'a str) -> ObjectRef<'a> {
        ObjectRef {
            group: &self.resource.group,
            resource: &self.resource.plural,
            name,
        }
    }

    /// The object of that name in the path's namespace.
    pub fn id(&self, name: &str) -> ObjectId {
        ObjectId {
            table: self.resource.table.clone(),
            key: object::key(self.namespace(), name).into(),
        }
    }

    /// The namespace of the objects, empty for objects of the cluster.
    pub fn namespace(&self) -> &str {
        if self.resource.namespaced {
            &self.path.namespace
        } else {
            ""
        }
    }

    /// What the request's manager is to own of a change.
    pub fn managed_context<'b>(&'b self, api_version: &'b str, now: &'b str) -> Context<'b> {
        Context {
            manager: &self.manager,
            api_version,
            subresource: &self.path.subresource,
            // A scale is owned since no particular time.
            time: if self.path.subresource == "scale" {
                ""
            } else {
                now
            },
            reset_fields: self.resource.reset_fields(&self.path.subresource),
        }
    }

    /// Gives the request's manager what `new` has and the live object has not.
    pub fn update_managed_fields(&self, live: Option<&Value>, new: &mut Value) {
        let now = self.server.clock.timestamp();
        let api_version = self.resource.api_version();
        let context = self.managed_context(&api_version, &now);
        managed::update(self.resource.shape(), live, new, &context);
    }

    /// An object of this resource in the form that is stored.
    pub fn to_stored(&self, mut object: Value) -> Value {
        if self.resource.needs_conversion() {
            return kinds::convert_event(&object, "");
        }
        if self
            .resource
            .as_custom()
            .is_some_and(|custom| !custom.stored)
        {
            let registry = self.server.registry();
            let stored = registry
                .of_table(&self.resource.table)
                .find(|version| version.as_custom().is_some_and(|custom| custom.stored));
            if let Some(stored) = stored {
                // What only the other version knows is not kept; the metadata is sound already.
                let _ = stored.decode(&mut object);
                stored.default(&mut object);
            }
        }
        object
    }

    /// The object that the path names, as it is stored.
    pub fn stored(&self) -> Result<Arc<Stored>, ApiError> {
        self.server
            .store
            .get(&self.resource.table, &self.id(&self.path.name).key)
            .ok_or_else(|| ApiError::not_found(self.object_ref()))
    }

    /// The answer with one object.
    pub fn respond_with_object(&self, code: StatusCode, object: &Value) -> Response<Body> {
        let bytes = output::one(self.output, self.resource, object, self.server.clock.now());
        self.respond(code, Body::whole(bytes))
    }

    /// The answer with what was written.
    pub fn respond_with_result(&self, code: StatusCode, written: &WriteResult) -> Response<Body> {
        match written {
            WriteResult::Stored(stored) => self.respond_with_stored(code, stored),
            WriteResult::NotStored(object) => self.respond_with_object(code, object),
        }
    }

    /// The answer with a stored object.
    pub fn respond_with_stored(&self, code: StatusCode, stored: &Stored) -> Response<Body> {
        if self.output == Output::Json {
            return self.respond(code, Body::whole(output::json(self.resource, stored)));
        }
        self.respond_with_object(code, &output::value(self.resource, stored))
    }

    /// An answer in the form that was asked for, with the warnings.
    pub fn respond(&self, code: StatusCode, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        *response.status_mut() = code;
        let media = match self.output {
            Output::Yaml => "application/yaml",
            Output::Json | Output::Table(_) | Output::Metadata => "application/json",
        };
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static(media),
        );
        for value in warning_headers(&self.warnings) {
            response.headers_mut().append(header::WARNING, value);
        }
        response
    }

    /// Says or refuses what nobody knows, as the client wished.
    pub fn apply_field_validation(
        &mut self,
        validation: FieldValidation,
        duplicates: &[String],
        unknown: &[String],
    ) -> Result<(), ApiError> {
        let findings: Vec<String> = duplicates
            .iter()
            .map(|path| format!("duplicate field {path:?}"))
            .chain(unknown.iter().cloned())
            .collect();
        match validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.extend(findings),
            FieldValidation::Strict if findings.is_empty() => {}
            FieldValidation::Strict => {
                return Err(ApiError::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                    self.resource.kind,
                    self.resource.version,
                    self.resource.kind,
                    findings.join(", ")
                )));
            }
        }
        Ok(())
    }
}
