//! Counting and deletion of all objects of a CustomResourceDefinition.

use std::collections::BTreeSet;

use api::Time;
use plan::kubevirt::observed::Count;

use super::{Answer, ExecuteResult, Executor, Failure};
use crate::{
    kubevirt::kinds::Resource,
    requests::{MetadataList, PartialObject, is_code},
};

/// Maximum number of objects to list for a count; the API server returns how many remain.
const COUNTED: usize = 5;

const PAGE_SIZE: usize = 500;

impl Executor {
    pub(super) async fn count(&self, definition: String) -> ExecuteResult {
        let Some(collection) = self.objects_of(&definition).await? else {
            return Ok(vec![self.counted(definition, MetadataList::default())]);
        };
        let page = self.page(&collection, Some(COUNTED), None).await?;
        Ok(vec![self.counted(definition, page)])
    }

    /// Deletes all objects of a definition, by namespace: there is no deletion across namespaces.
    pub(super) async fn delete_all(&self, definition: String) -> ExecuteResult {
        let Some(collection) = self.objects_of(&definition).await? else {
            return Ok(vec![self.counted(definition, MetadataList::default())]);
        };
        let mut namespaces = BTreeSet::new();
        let mut rest = None;
        loop {
            let page = self.page(&collection, None, rest.as_deref()).await?;
            let is_alive = |item: &&PartialObject| item.metadata.deletion_timestamp.is_none();
            let left = page.items.iter().filter(is_alive);
            namespaces.extend(left.map(|item| item.metadata.namespace.clone()));
            rest = Some(page.metadata.continue_token).filter(|token| !token.is_empty());
            if rest.is_none() {
                break;
            }
        }
        for namespace in &namespaces {
            let path = collection.in_namespace(namespace.as_deref());
            self.requests.delete_collection(&path).await?;
        }
        let page = self.page(&collection, Some(COUNTED), None).await?;
        Ok(vec![self.counted(definition, page)])
    }

    /// Resource of a definition; None if there is no such definition.
    async fn objects_of(&self, definition: &str) -> Result<Option<Resource>, Failure> {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}");
        let found = match self.requests.get(&path).await {
            Ok(found) => found,
            Err(error) if is_code(&error, 404) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let resource = Resource::from_definition(&found);
        let unserved =
            || Failure::with_message(format!("definition {definition:?} serves no version"));
        resource.map(Some).ok_or_else(unserved)
    }

    async fn page(
        &self,
        resource: &Resource,
        limit: Option<usize>,
        rest: Option<&str>,
    ) -> Result<MetadataList, Failure> {
        let limit = limit.unwrap_or(PAGE_SIZE);
        let mut path = format!("{}?limit={limit}", resource.in_namespace(None));
        if let Some(rest) = rest {
            path = format!("{path}&continue={rest}");
        }
        match self.requests.list_metadata(&path).await {
            Ok(page) => Ok(page),
            // Not served yet, or not any more: there are no objects.
            Err(error) if is_code(&error, 404) => Ok(MetadataList::default()),
            Err(error) => Err(error.into()),
        }
    }

    fn counted(&self, definition: String, page: MetadataList) -> Answer {
        let MetadataList { metadata, items } = page;
        let named = items.iter().map(|item| {
            let name = item.metadata.name.as_deref().unwrap_or_default();
            match item.metadata.namespace.as_deref() {
                None | Some("") => name.to_owned(),
                Some(namespace) => format!("{namespace}/{name}"),
            }
        });
        let is_deleting = |item: &PartialObject| item.metadata.deletion_timestamp.is_some();
        let deleting = items.iter().filter(|item| is_deleting(item));
        let count = Count {
            objects: items.len().saturating_add(metadata.remaining_item_count),
            names: named.collect(),
            deleting: items.iter().all(is_deleting),
            finalizers: deleting
                .flat_map(|item| item.metadata.finalizers.clone().unwrap_or_default())
                .collect(),
            at: Time((self.clock)()),
        };
        Answer::Counted(definition, count)
    }
}
