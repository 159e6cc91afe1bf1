//! Loopback client: lets built-in controllers use the same code path as API clients.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    ApiError,
    auth::User,
    object,
    output::{self, Output},
    registry::Resource,
    request::{Query, ResourcePath},
    serializer::ContentType,
    server::Shared,
    store::ObjectId,
    verbs::{
        Call, FieldOwnership,
        delete::{self, Propagation},
        update::guaranteed_update,
    },
};

pub struct LoopbackClient<'a> {
    server: &'a Arc<Shared>,
    user: User,
    manager: &'static str,
    query: Query,
}

impl<'a> LoopbackClient<'a> {
    /// Client of the controller `manager`.
    pub fn new(server: &'a Arc<Shared>, manager: &'static str) -> Self {
        Self {
            server,
            user: User {
                name: format!("system:serviceaccount:kube-system:{manager}"),
                groups: vec![
                    "system:masters".to_owned(),
                    "system:authenticated".to_owned(),
                ],
                ..User::default()
            },
            manager,
            query: Query::default(),
        }
    }

    fn resource(&self, id: &ObjectId) -> Option<Arc<Resource>> {
        let registry = self.server.registry();
        let mut versions = registry.of_table(&id.table);
        let first = versions.next()?;
        Some(
            std::iter::once(first)
                .chain(versions)
                .find(|resource| resource.as_custom().is_none_or(|custom| custom.stored))
                .unwrap_or(first)
                .clone(),
        )
    }

    fn path(resource: &Resource, id: &ObjectId, subresource: &str) -> ResourcePath {
        let (namespace, name) = id.key.split_once('/').unwrap_or(("", &id.key));
        ResourcePath {
            group: resource.group.clone(),
            version: resource.version.clone(),
            namespace: namespace.to_owned(),
            resource: resource.plural.clone(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            rest: String::new(),
        }
    }

    fn call<'b>(&'b self, resource: &'b Arc<Resource>, path: &'b ResourcePath) -> Call<'b> {
        Call {
            server: self.server,
            resource,
            path,
            query: &self.query,
            user: &self.user,
            output: Output::Json,
            manager: self.manager.to_owned(),
            warnings: Vec::new(),
        }
    }

    pub fn get(&self, id: &ObjectId) -> Option<Value> {
        let resource = self.resource(id)?;
        let stored = self.server.store.get(&id.table, &id.key)?;
        Some(output::value(&resource, &stored))
    }

    /// Updates an object; a missing object is not an error.
    pub async fn update(
        &self,
        id: &ObjectId,
        subresource: &str,
        transform: impl Fn(&mut Value),
    ) -> Result<(), ApiError> {
        self.try_update(id, subresource, |object| {
            transform(object);
            Ok(())
        })
        .await
    }

    /// Updates an object unless `transform` fails; a missing object is not an error.
    pub async fn try_update(
        &self,
        id: &ObjectId,
        subresource: &str,
        transform: impl Fn(&mut Value) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let Some(resource) = self.resource(id) else {
            return Ok(());
        };
        let path = Self::path(&resource, id, subresource);
        let mut call = self.call(&resource, &path);
        ignore_not_found(
            guaranteed_update(&mut call, false, |_, old| {
                let mut new = old.clone();
                transform(&mut new)?;
                Ok((new, FieldOwnership::FromDiff))
            })
            .await,
        )
    }

    /// Deletes the object with this UID; a missing object is not an error.
    pub async fn delete(
        &self,
        id: &ObjectId,
        uid: &str,
        propagation: Propagation,
    ) -> Result<(), ApiError> {
        let Some(resource) = self.resource(id) else {
            return Ok(());
        };
        let path = Self::path(&resource, id, "");
        let mut call = self.call(&resource, &path);
        let options = serde_json::json!({
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation.as_str(),
        });
        let body: Bytes = output::to_bytes(&options);
        ignore_not_found(delete::delete(&mut call, ContentType::Json, &body).await)
    }

    pub async fn remove_finalizer(&self, id: &ObjectId, finalizer: &str) -> Result<(), ApiError> {
        self.update(id, "", |object| {
            let kept = object::finalizers(object)
                .filter(|one| *one != finalizer)
                .map(Value::from)
                .collect();
            object::set_meta_list(object, "finalizers", kept);
        })
        .await
    }
}

fn ignore_not_found<T>(result: Result<T, ApiError>) -> Result<(), ApiError> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.reason == "NotFound" => Ok(()),
        Err(error) => Err(error),
    }
}
