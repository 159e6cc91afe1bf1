//! Request handlers, one file per verb.

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

/// How a write determines the owners of fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldOwnership {
    /// The field manager of the request owns what differs from the live object.
    FromDiff,
    /// Server-side apply has computed managedFields.
    FromApply,
}

#[derive(Debug)]
pub enum WriteResult {
    Stored(Arc<Stored>),
    /// Dry run, or the last finalizer was removed.
    NotStored(Value),
}

impl WriteResult {
    pub fn into_value(self, resource: &Resource) -> Value {
        match self {
            Self::Stored(stored) => output::value(resource, &stored),
            Self::NotStored(object) => object,
        }
    }
}

/// Request to a resource, with its parsed options.
#[derive(Debug)]
pub struct Call<'a> {
    pub server: &'a Arc<Shared>,
    pub resource: &'a Arc<Resource>,
    pub path: &'a ResourcePath,
    pub query: &'a Query,
    pub user: &'a User,
    pub output: Output,
    /// Field manager of the request.
    pub manager: String,
    /// `Warning` headers of the response.
    pub warnings: Vec<String>,
}

impl<'a> Call<'a> {
    /// Reference to the object in the path, for error texts.
    pub fn object_ref(&'a self) -> ObjectRef<'a> {
        self.object_ref_named(&self.path.name)
    }

    /// Reference to an object of this resource, for error texts.
    pub fn object_ref_named(&'a self, name: &'a str) -> ObjectRef<'a> {
        ObjectRef {
            group: &self.resource.group,
            resource: &self.resource.plural,
            name,
        }
    }

    /// ID of an object in the namespace of the request.
    pub fn id(&self, name: &str) -> ObjectId {
        ObjectId {
            table: self.resource.table.clone(),
            key: object::key(self.namespace(), name).into(),
        }
    }

    /// Empty for cluster scope.
    pub fn namespace(&self) -> &str {
        if self.resource.namespaced {
            &self.path.namespace
        } else {
            ""
        }
    }

    /// Context for updating managedFields.
    pub fn managed_context<'b>(&'b self, api_version: &'b str, now: &'b str) -> Context<'b> {
        Context {
            manager: &self.manager,
            api_version,
            subresource: &self.path.subresource,
            // managedFields of a scale have no time.
            time: if self.path.subresource == "scale" {
                ""
            } else {
                now
            },
            reset_fields: self.resource.reset_fields(&self.path.subresource),
        }
    }

    /// Assigns fields in which `new` differs from the live object to the field manager.
    pub fn update_managed_fields(&self, live: Option<&Value>, new: &mut Value) {
        let now = self.server.clock.timestamp();
        let api_version = self.resource.api_version();
        let context = self.managed_context(&api_version, &now);
        managed::update(self.resource.shape(), live, new, &context);
    }

    /// Converts an object to its storage version.
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
                // Fields unknown to the storage version are pruned; the metadata is valid already.
                let _ = stored.decode(&mut object);
                stored.default(&mut object);
            }
        }
        object
    }

    pub fn stored(&self) -> Result<Arc<Stored>, ApiError> {
        self.server
            .store
            .get(&self.resource.table, &self.id(&self.path.name).key)
            .ok_or_else(|| ApiError::not_found(self.object_ref()))
    }

    pub fn respond_with_object(&self, code: StatusCode, object: &Value) -> Response<Body> {
        let bytes = output::one(self.output, self.resource, object, self.server.clock.now());
        self.respond(code, Body::full(bytes))
    }

    pub fn respond_with_result(&self, code: StatusCode, written: &WriteResult) -> Response<Body> {
        match written {
            WriteResult::Stored(stored) => self.respond_with_stored(code, stored),
            WriteResult::NotStored(object) => self.respond_with_object(code, object),
        }
    }

    pub fn respond_with_stored(&self, code: StatusCode, stored: &Stored) -> Response<Body> {
        if self.output == Output::Json {
            return self.respond(code, Body::full(output::json(self.resource, stored)));
        }
        self.respond_with_object(code, &output::value(self.resource, stored))
    }

    /// Response in the negotiated representation, with warnings.
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

    /// Applies `fieldValidation` to unknown and duplicate fields.
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
