//! Live state of the cluster for a preview, listed once into the controller's caches.

use std::collections::BTreeMap;

use api::kubevirt::install::KubeVirt;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use plan::kubevirt::{Id, Live, observed::Served};
use tokio::time::Instant;

use super::{PreviewError, PreviewRequest, not_read};
use crate::{
    kubevirt::{
        caches::Caches,
        certificates::Certificates,
        kinds::{Kinds, Listing},
        strategies::{self, Strategies},
        watches::{KindEvent, Watched, Watches},
    },
    lists::collect_list,
    requests::Requests,
};

/// Maximum number of requests in flight.
const CONCURRENCY: usize = 8;

pub(super) struct Found {
    pub(super) caches: Caches,
    pub(super) served: Served,
    pub(super) strategies: Strategies,
    pub(super) certificates: Certificates,
    kinds: Kinds,
    watches: Watches,
    namespace: String,
}

impl Found {
    /// Lists all kinds except those of the installation's objects.
    pub(super) async fn list(
        client: Client,
        requests: &Requests,
        request: &PreviewRequest,
    ) -> Result<Self, PreviewError> {
        let namespace = request.operator.namespace.clone();
        let mut found = Self {
            caches: Caches::new(),
            served: Served::default(),
            strategies: Strategies::new(request.strategies.clone()),
            certificates: Certificates::new(None),
            kinds: Kinds::default(),
            watches: Watches::new(client, namespace.clone()),
            namespace,
        };
        found.list_into_caches(vec![Watched::Definitions]).await?;
        let listing = Listing::read(requests).await.map_err(not_read)?;
        found.kinds.update(listing);
        let mut wanted = Watched::OWN.to_vec();
        // The KubeVirt resource names the service account.
        wanted.retain(|watched| !matches!(watched, Watched::Definitions | Watched::Accounts));
        wanted.retain(|watched| {
            let definition = watched.definition();
            definition.is_none_or(|name| found.caches.is_defined(name))
        });
        found.list_into_caches(wanted).await?;
        Ok(found)
    }

    /// Reads the install strategies that the plan may need.
    pub(super) async fn read_strategies(
        &mut self,
        requests: &Requests,
        kubevirt: &KubeVirt,
        request: &PreviewRequest,
    ) -> Result<(), PreviewError> {
        let account = kubevirt.spec.monitor_account.as_deref();
        self.watches.set_prometheus_account(account);
        self.list_into_caches(vec![Watched::Accounts]).await?;
        self.served.monitors = self.caches.accounts();
        let now = Instant::now();
        // Whether the second is needed depends on the first.
        for _ in 0..2 {
            let cached = self.strategies.cached();
            let wanted = strategies::wanted(kubevirt, &request.operator, &self.served, cached);
            self.strategies.retain(&wanted);
            let objects = self.caches.objects();
            for source in self.strategies.missing(&wanted, objects, now) {
                let read = strategies::read(requests, source).await;
                self.strategies.on_read(read, now);
            }
        }
        if self.kinds.add(self.strategies.kinds().into_iter()) {
            let listing = Listing::read(requests).await.map_err(not_read)?;
            self.kinds.update(listing);
        }
        Ok(())
    }

    /// Lists the objects of the installation.
    pub(super) async fn list_objects(&mut self) -> Result<(), PreviewError> {
        let served = self.kinds.served(|name| self.caches.is_defined(name));
        let kinds = served.iter().map(|resource| {
            let kind = (resource.group.to_string(), resource.kind.to_string());
            (kind, resource.version.to_string())
        });
        self.served.kinds = kinds.collect();
        let wanted = served.iter();
        let wanted = wanted.map(|resource| Watched::Objects(resource.group_kind()));
        self.list_into_caches(wanted.collect()).await?;
        self.certificates
            .update(self.caches.objects(), &self.namespace);
        Ok(())
    }

    /// Notes about missing prerequisites.
    pub(super) fn notes(&self, namespace: &str) -> Vec<String> {
        let id = Id::new("", "Namespace", "", namespace);
        let exists = self.caches.objects().contains_key(&id);
        let note = format!(
            "namespace {namespace} does not exist: `kubectl apply -f config/rbac/virt-operator` \
             creates it"
        );
        (!exists).then_some(note).into_iter().collect()
    }

    async fn list_into_caches(&mut self, wanted: Vec<Watched>) -> Result<(), PreviewError> {
        let this = &*self;
        let lists: Vec<(Watched, Vec<KindEvent>)> = stream::iter(wanted)
            .map(|watched| this.list_events(watched))
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        for (watched, list) in lists {
            for event in list {
                if let KindEvent::Secret(change) = &event {
                    self.certificates.on_event(change);
                }
                self.caches.on_event(&watched, event);
            }
        }
        Ok(())
    }

    async fn list_events(
        &self,
        watched: Watched,
    ) -> Result<(Watched, Vec<KindEvent>), PreviewError> {
        let Some(events) = self.watches.start(&watched, &self.kinds, 0) else {
            return Ok((watched, Vec::new()));
        };
        let list = collect_list(events, KindEvent::progress, watched.name()).await;
        Ok((watched, list.map_err(PreviewError::NotRead)?))
    }
}

/// Stored versions of CustomResourceDefinitions, by name.
pub(super) fn stored_versions(objects: &BTreeMap<Id, Live>) -> BTreeMap<String, Vec<String>> {
    let group = "apiextensions.k8s.io";
    let definitions = objects
        .values()
        .filter(|live| live.id.is(group, "CustomResourceDefinition"));
    definitions
        .map(|live| {
            let value = live.value();
            let stored = value["status"]["storedVersions"].as_array();
            let stored = stored.into_iter().flatten();
            let stored = stored.filter_map(|version| version.as_str().map(str::to_owned));
            (live.id.name.to_string(), stored.collect())
        })
        .collect()
}
