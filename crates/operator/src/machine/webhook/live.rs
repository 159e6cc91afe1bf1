//! What no cache has: VirtualMachines of others, Secrets, and how full quotas are. Each is asked for
//! when a change needs it, for a short time, and goes unchecked if there is no answer.

use std::{sync::Arc, time::Duration};

use api::{
    Machine, ObjectMeta,
    core::{ResourceQuota, Secret},
    labels,
};
use kube::Client;
use plan::{
    admission::machine::{Facts, virtual_machine},
    machine::Known,
    naming,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    machine::secrets,
    requests::{Requests, is_code},
};

/// How long the API server may take. It waits 3 s for our answer itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks the API server.
#[derive(Clone)]
pub(super) struct Live {
    requests: Requests,
}

#[derive(Deserialize)]
struct Object {
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Quotas {
    items: Vec<ResourceQuota>,
}

impl Live {
    pub(super) fn new(client: Client) -> Self {
        Self {
            requests: Requests::new(client, labels::MANAGER),
        }
    }

    /// Adds to what is known of a Machine.
    pub(super) async fn look(&self, old: Option<&Machine>, new: &Machine, facts: &mut Facts) {
        // What comes over the network becomes a part of paths.
        let is_name = |name: &&str| naming::is_dns_name(name);
        let Some(namespace) = new.metadata.namespace.as_deref().filter(is_name) else {
            return;
        };
        let (vm, secrets, quotas) = futures::join!(
            self.virtual_machine(namespace, old, new),
            self.secrets(namespace, old, new),
            self.quotas(namespace),
        );
        if old.is_none() {
            facts.virtual_machine = vm;
        }
        facts.surroundings.secrets = secrets;
        facts.quotas = quotas;
    }

    /// The VirtualMachine that has the name a new Machine wants.
    async fn virtual_machine(
        &self,
        namespace: &str,
        old: Option<&Machine>,
        new: &Machine,
    ) -> Option<ObjectMeta> {
        let name = virtual_machine(new);
        if old.is_some() || !naming::is_dns_name(name) {
            return None;
        }
        let path = format!("/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines/{name}");
        match self.get::<Object>(&path).await {
            Answer::Found(vm) => Some(vm.metadata),
            Answer::Missing | Answer::Unknown => None,
        }
    }

    /// The Secret that a change has user data taken from.
    async fn secrets(
        &self,
        namespace: &str,
        old: Option<&Machine>,
        new: &Machine,
    ) -> Known<Secret> {
        let is_told = old.is_some_and(|old| old.spec.cloud_init == new.spec.cloud_init);
        let named = secrets::named(new).filter(|(name, _)| !is_told && naming::is_dns_name(name));
        let Some((name, _)) = named else {
            return Known::default();
        };
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        match self.get(&path).await {
            Answer::Found(secret) => Known::all([(name.to_owned(), Arc::new(secret))]),
            Answer::Missing => Known::all([]),
            Answer::Unknown => Known::default(),
        }
    }

    async fn quotas(&self, namespace: &str) -> Vec<ResourceQuota> {
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas");
        match self.get::<Quotas>(&path).await {
            Answer::Found(quotas) => quotas.items,
            Answer::Missing | Answer::Unknown => Vec::new(),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Answer<T> {
        match timeout(PATIENCE, self.requests.get(path)).await {
            Ok(Ok(value)) => decoded(value),
            Ok(Err(error)) if is_code(&error, 404) => Answer::Missing,
            Ok(Err(_)) | Err(_) => Answer::Unknown,
        }
    }
}

/// What the API server said.
enum Answer<T> {
    Found(T),
    Missing,
    Unknown,
}

fn decoded<T: DeserializeOwned>(value: Value) -> Answer<T> {
    serde_json::from_value(value).map_or(Answer::Unknown, Answer::Found)
}
