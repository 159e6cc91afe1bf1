//! Resource registry: built-in resources and those that CustomResourceDefinitions add.

mod custom;
mod resource;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

pub use self::{
    custom::{Custom, CustomColumn},
    resource::{Resource, Source},
};
use crate::{object, store::TableId};

#[derive(Clone, Debug, Default)]
pub struct Registry {
    resources: BTreeMap<(String, String, String), Arc<Resource>>,
}

impl Registry {
    pub fn built_in() -> Self {
        let mut registry = Self::default();
        for kind in kinds::all() {
            registry.add(Resource::built_in(kind));
        }
        registry
    }

    fn add(&mut self, resource: Resource) {
        let key = (
            resource.group.clone(),
            resource.version.clone(),
            resource.plural.clone(),
        );
        self.resources.insert(key, Arc::new(resource));
    }

    /// Replaces the resources of a definition, which was written at revision `since`.
    pub fn define(&mut self, definition: &Value, since: u64) -> Result<(), String> {
        let served = Resource::custom(definition, since)?;
        self.undefine(object::meta(definition, "name"));
        for resource in served {
            self.add(resource);
        }
        Ok(())
    }

    /// Removes the resources of a definition.
    pub fn undefine(&mut self, definition: &str) {
        self.resources.retain(|_, resource| match &resource.source {
            Source::Custom(custom) => custom.definition != definition,
            Source::BuiltIn(_) => true,
        });
    }

    pub fn defines(&self, definition: &str) -> bool {
        self.all().any(|resource| {
            resource
                .as_custom()
                .is_some_and(|custom| custom.definition == definition)
        })
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.resources.get(&key)
    }

    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.group_version(group, version)
            .find(|resource| resource.kind == kind)
    }

    /// One per version.
    pub fn of_table<'a>(&'a self, table: &'a TableId) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.all().filter(move |resource| resource.table == *table)
    }

    pub fn group_version(
        &self,
        group: &str,
        version: &str,
    ) -> impl Iterator<Item = &Arc<Resource>> {
        let start = (group.to_owned(), version.to_owned(), String::new());
        let (group, version) = (group.to_owned(), version.to_owned());
        self.resources
            .range(start..)
            .take_while(move |((g, v, _), _)| *g == group && *v == version)
            .map(|(_, resource)| resource)
    }

    /// Ordered by group, version and plural.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Tables of namespaced resources.
    pub fn namespaced_tables(&self) -> BTreeSet<TableId> {
        self.all()
            .filter(|resource| resource.namespaced)
            .map(|resource| resource.table.clone())
            .collect()
    }
}
