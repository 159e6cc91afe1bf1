//! What no cache has: VirtualMachines of others, Secrets, and how full quotas are. Each is asked for
//! when a change needs it, for a short time, and goes unchecked if there is no answer, which is told.

use std::{sync::Arc, time::Duration};

use api::{
    Machine, ObjectMeta,
    core::{ResourceQuota, Secret},
    labels,
};
use kube::Client;
use plan::{
    admission::machine::{ReviewContext, virtual_machine},
    machine::Known,
    naming,
};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::timeout;

use super::Unchecked;
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
    #[serde(default)]
    items: Vec<ResourceQuota>,
}

impl Live {
    pub(super) fn new(client: Client) -> Self {
        Self {
            requests: Requests::new(client, labels::MANAGER),
        }
    }

    /// Adds to what is known of a Machine. Fails if not all of it was told; the rest is added.
    pub(super) async fn look(
        &self,
        old: Option<&Machine>,
        new: &Machine,
        facts: &mut ReviewContext,
    ) -> Result<(), Unchecked> {
        // What comes over the network becomes a part of paths.
        let is_name = |name: &&str| naming::is_dns_name(name);
        let Some(namespace) = new.metadata.namespace.as_deref().filter(is_name) else {
            return Ok(());
        };
        let (vm, secrets, quotas) = futures::join!(
            self.virtual_machine(namespace, old, new),
            self.secrets(namespace, old, new),
            self.quotas(namespace),
        );
        let told = vm
            .as_ref()
            .map(drop)
            .and(secrets.as_ref().map(drop))
            .and(quotas.as_ref().map(drop))
            .map_err(|unchecked| *unchecked);
        if old.is_none() {
            facts.virtual_machine = vm.unwrap_or_default();
        }
        facts.surroundings.secrets = secrets.unwrap_or_default();
        facts.quotas = quotas.unwrap_or_default();
        told
    }

    /// The VirtualMachine that has the name a new Machine wants.
    async fn virtual_machine(
        &self,
        namespace: &str,
        old: Option<&Machine>,
        new: &Machine,
    ) -> Result<Option<ObjectMeta>, Unchecked> {
        let name = virtual_machine(new);
        if old.is_some() || !naming::is_dns_name(name) {
            return Ok(None);
        }
        let path = format!("/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines/{name}");
        let vm = self.get::<Object>(&path).await?;
        Ok(vm.map(|vm| vm.metadata))
    }

    /// The Secret that a change has user data taken from.
    async fn secrets(
        &self,
        namespace: &str,
        old: Option<&Machine>,
        new: &Machine,
    ) -> Result<Known<Secret>, Unchecked> {
        let is_told = old.is_some_and(|old| old.spec.cloud_init == new.spec.cloud_init);
        let named = secrets::named(new).filter(|(name, _)| !is_told && naming::is_dns_name(name));
        let Some((name, _)) = named else {
            return Ok(Known::default());
        };
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let secret = self.get(&path).await?;
        Ok(Known::all(
            secret.map(|secret| (name.to_owned(), Arc::new(secret))),
        ))
    }

    async fn quotas(&self, namespace: &str) -> Result<Vec<ResourceQuota>, Unchecked> {
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas");
        let quotas = self.get::<Quotas>(&path).await?;
        Ok(quotas.map(|quotas| quotas.items).unwrap_or_default())
    }

    /// What is there, if it is.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Unchecked> {
        match timeout(PATIENCE, self.requests.get(path)).await {
            Ok(Ok(value)) => decode::from_value(value).map_err(|_| Unchecked::Untold),
            Ok(Err(error)) if is_code(&error, 404) => Ok(None),
            Ok(Err(_)) | Err(_) => Err(Unchecked::Untold),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Looks with an API server that answers so about everything, or never.
    async fn look(answer: Option<(u16, &'static str)>) -> Result<(), Unchecked> {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let Some((status, body)) = answer else {
                return std::future::pending().await;
            };
            let mut answer = Response::new(Body::from(body.as_bytes().to_vec()));
            *answer.status_mut() = http::StatusCode::from_u16(status).unwrap();
            Ok::<_, Infallible>(answer)
        });
        let live = Live::new(Client::new(service, "default"));
        let machine = json!({
            "apiVersion": "", "kind": "", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "cloudInit": { "secretRef": { "name": "users" } } },
        });
        let machine: Machine = serde_json::from_value(machine).unwrap();
        live.look(None, &machine, &mut ReviewContext::default())
            .await
    }

    #[rstest]
    #[case::all_is_told(Some((200, r#"{"metadata":{},"items":[]}"#)), true)]
    #[case::nothing_is_there(Some((404, r#"{"code":404}"#)), true)]
    #[case::not_allowed(Some((403, r#"{"code":403}"#)), false)]
    #[case::out_of_order(Some((500, "")), false)]
    #[case::no_sense(Some((200, "[]")), false)]
    #[case::no_answer(None, false)]
    #[tokio::test(start_paused = true)]
    async fn what_is_not_told_is_told_as_unchecked(
        #[case] answer: Option<(u16, &'static str)>,
        #[case] is_told: bool,
    ) {
        let expected = if is_told {
            Ok(())
        } else {
            Err(Unchecked::Untold)
        };
        assert_eq!(look(answer).await, expected);
    }
}
