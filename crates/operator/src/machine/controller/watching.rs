//! Watches of the controller: which kinds are watched in which cluster, and whether their caches are filled.

use runtime::{cache::WatchScope, reflector::WatchEvent};
use tokio::time::Instant;

use super::Controller;
use crate::machine::{
    definitions,
    watches::{KindEvent, Location, Watched, children_of},
};

impl Controller {
    /// Whether a kind can be watched: those of another cluster with the UID by which its objects are
    /// selected, and not at all without a client.
    pub(super) fn may_watch(&self, watched: Watched) -> bool {
        let Some(cluster) = self.caches.home.remote() else {
            return true;
        };
        watched.location() == Location::Management
            || self.workload.is_some() && cluster.managed_from.is_some()
    }

    pub(super) fn start_watch(&mut self, watched: Watched) {
        let client = match watched.location() {
            Location::Management => Some(&self.deps.client),
            Location::Workload => self.workload.as_ref(),
        };
        let Some(client) = client else {
            return;
        };
        let children = children_of(self.caches.home.remote());
        let events = watched.start(
            client,
            &children,
            &self.options.passed_on,
            &self.scopes,
            self.random.next(),
        );
        self.inputs.watches.start(watched, events);
        self.deps.health.set_synced(watched.name(), false);
    }

    fn stop_watch(&mut self, watched: Watched) {
        if self.inputs.watches.stop(&watched) {
            self.caches.forget(watched);
            self.deps.report.forget_kind(watched);
            if let Some(remote) = &mut self.remote {
                remote.reachability.forget(watched);
            }
            if watched.is_required() {
                self.deps.health.set_synced(watched.name(), false);
            } else {
                self.deps.health.forget(watched.name());
            }
            tracing::info!(
                kind = watched.name(),
                "stopped watching {}: its CustomResourceDefinition was removed",
                watched.name()
            );
        }
    }

    /// Starts and stops watches so that exactly the served kinds are watched.
    fn update_watches(&mut self) {
        if !self.caches.is_synced(Watched::Definitions) {
            return;
        }
        self.caches.note_management_cluster();
        for watched in Watched::ALL {
            // Until the definitions of the other cluster are known, none of its kinds is served.
            let is_served = self.caches.is_served(watched) && self.may_watch(watched);
            match (is_served, self.inputs.watches.contains(&watched)) {
                (true, false) => self.start_watch(watched),
                (false, true) => self.stop_watch(watched),
                (true, true) | (false, false) => {}
            }
        }
        self.publish_configs();
    }

    pub(super) fn on_watch_event(
        &mut self,
        watched: Watched,
        scope: &WatchScope,
        event: KindEvent,
    ) {
        event.log(watched.name());
        if let Some(remote) = &mut self.remote
            && watched.location() == Location::Workload
            && watched != Watched::Secrets
            && let Some(health) = event.health()
        {
            remote
                .reachability
                .on_watch(watched, health, Instant::now());
        }
        match &event {
            KindEvent::Quota(WatchEvent::Applied(quota)) => {
                let namespace = quota.metadata.namespace.clone();
                self.retry_over_quota(namespace.as_deref().unwrap_or_default());
            }
            KindEvent::Quota(WatchEvent::Deleted(quota)) => self.retry_over_quota(&quota.namespace),
            _ => {}
        }
        let affected = self.caches.on_event(scope, event);
        self.enqueue(affected);
        if watched == Watched::Definitions {
            let is_local = self.remote.is_none();
            let find = |name: &str| {
                let is_own = is_local || name != definitions::PROVIDERS;
                self.caches.definition(name).filter(|_| is_own)
            };
            self.definitions.on_change(find, Instant::now());
            self.update_watches();
        }
        if watched == Watched::RemoteDefinitions {
            self.update_watches();
        }
        if watched == Watched::Configs {
            self.publish_configs();
        }
        self.update_synced(watched);
    }

    fn update_synced(&mut self, watched: Watched) {
        let synced = self.caches.is_synced(watched);
        self.deps.health.set_synced(watched.name(), synced);
        let is_ready = |watched: Watched| {
            let is_optional = watched.is_vitistack() || !watched.is_required();
            self.caches.is_synced(watched) || is_optional && !self.caches.is_served(watched)
        };
        let mut own = Watched::ALL.into_iter();
        let all = own.all(is_ready);
        let mut own = Watched::ALL.into_iter();
        self.management_synced =
            own.all(|watched| watched.location() == Location::Workload || is_ready(watched));
        if all && !self.synced {
            let name = self.cluster_name();
            match name {
                None => tracing::info!("Machine controller: caches are synced"),
                Some(cluster) => {
                    tracing::info!(
                        cluster,
                        "Machine controller: caches of {cluster} are synced"
                    );
                }
            }
            self.enqueue_all();
        }
        self.synced = all;
    }
}
