//! What there is in the cluster, listed once, in the caches of the controller.

use std::collections::BTreeMap;

use api::kubevirt::install::KubeVirt;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use plan::kubevirt::{Id, Live, observed::Served};
use tokio::time::Instant;

use super::{PreviewError, Question, not_read};
use crate::{
    kubevirt::{
        caches::Caches,
        certificates::Certificates,
        controller::{ACCOUNT, DEFINITION},
        kinds::{Kinds, Listing},
        strategies::{self, Strategies},
        watches::{Told, Watched, Watches},
    },
    lists::{Progress, up_to_the_end},
    requests::Requests,
};

/// How many requests are under way at a time.
const CONCURRENCY: usize = 8;

/// What there is.
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
    /// Lists everything but the objects of the installation.
    pub(super) async fn list(
        client: Client,
        requests: &Requests,
        question: &Question,
    ) -> Result<Self, PreviewError> {
        let namespace = question.operator.namespace.clone();
        let mut found = Self {
            caches: Caches::new(),
            served: Served::default(),
            strategies: Strategies::new(question.strategies.clone()),
            certificates: Certificates::new(None),
            kinds: Kinds::default(),
            watches: Watches::new(client, namespace.clone()),
            namespace,
        };
        found.take(vec![Watched::Definitions]).await?;
        let listing = Listing::ask(requests).await.map_err(not_read)?;
        found.kinds.list(listing);
        let mut wanted = vec![
            Watched::Pods,
            Watched::Nodes,
            Watched::Namespace,
            Watched::Strategies,
            Watched::Lease,
        ];
        if found.caches.is_defined(DEFINITION) {
            wanted.push(Watched::KubeVirts);
        }
        found.take(wanted).await?;
        Ok(found)
    }

    /// Reads the strategies that may be aimed at.
    pub(super) async fn read_strategies(
        &mut self,
        requests: &Requests,
        kubevirt: &KubeVirt,
        question: &Question,
    ) -> Result<(), PreviewError> {
        let account = kubevirt.spec.monitor_account.clone();
        let account = account.filter(|account| !account.is_empty());
        let account = account.unwrap_or_else(|| ACCOUNT.to_owned());
        self.take(vec![Watched::Accounts(account)]).await?;
        self.served.monitors = self.caches.accounts();
        let now = Instant::now();
        // What is at hand of the first says whether the second is needed.
        for _ in 0..2 {
            let held = self.strategies.held();
            let wanted = strategies::wanted(kubevirt, &question.operator, &self.served, held);
            self.strategies.keep(&wanted);
            let objects = self.caches.objects();
            for place in self.strategies.missing(&wanted, objects, now) {
                let read = strategies::read(requests, place).await;
                self.strategies.take(read, now);
            }
        }
        if self.kinds.want(self.strategies.kinds().into_iter()) {
            let listing = Listing::ask(requests).await.map_err(not_read)?;
            self.kinds.list(listing);
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
        self.take(wanted.collect()).await?;
        self.certificates
            .follow(self.caches.objects(), &self.namespace);
        Ok(())
    }

    /// What is not there that ought to be.
    pub(super) fn notes(&self, namespace: &str) -> Vec<String> {
        let id = Id::new("", "Namespace", "", namespace);
        let is_there = self.caches.objects().contains_key(&id);
        let note = format!(
            "there is no namespace {namespace}: it comes with `kubectl apply -f \
             config/rbac/virt-operator`"
        );
        (!is_there).then_some(note).into_iter().collect()
    }

    /// Takes lists into the caches.
    async fn take(&mut self, wanted: Vec<Watched>) -> Result<(), PreviewError> {
        let this = &*self;
        let lists: Vec<(Watched, Vec<Told>)> = stream::iter(wanted)
            .map(|watched| this.told(watched))
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        for (watched, list) in lists {
            for told in list {
                if let Told::Secret(change) = &told {
                    self.certificates.told(change);
                }
                self.caches.told(&watched, told);
            }
        }
        Ok(())
    }

    async fn told(&self, watched: Watched) -> Result<(Watched, Vec<Told>), PreviewError> {
        let told = match &watched {
            Watched::Objects((group, kind)) => {
                let resource = self.kinds.resource(group, kind);
                resource.map(|resource| self.watches.objects(resource, 0))
            }
            other => self.watches.start(other, 0),
        };
        let Some(told) = told else {
            return Ok((watched, Vec::new()));
        };
        let list = up_to_the_end(told, progress, watched.name()).await;
        Ok((watched, list.map_err(PreviewError::NotRead)?))
    }
}

fn progress(told: &Told) -> Progress {
    match told {
        Told::KubeVirt(change) => Progress::of(change),
        Told::Definition(change) => Progress::of(change),
        Told::Pod(change) => Progress::of(change),
        Told::Node(change) => Progress::of(change),
        Told::Account(change) => Progress::of(change),
        Told::Object(change) => Progress::of(change),
        Told::Secret(change) => Progress::of(change),
    }
}

/// The versions in which objects of definitions are stored.
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
