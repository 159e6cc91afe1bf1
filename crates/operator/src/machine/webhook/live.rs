//! Live reads of a review: foreign VirtualMachines, Secrets, ConfigMaps and quotas, which are not cached.
//!
//! Each read has a short timeout. What cannot be read is not checked, and the review says so.

use std::{sync::Arc, time::Duration};

use api::{Machine, ObjectMeta, core::ResourceQuota, labels};
use kube::Client;
use plan::{
    admission::machine::{ReviewContext, virtual_machine},
    machine::{CloudInitObjects, SourceKind, cloud_init_sources},
    naming,
};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::timeout;

use super::Unchecked;
use crate::{
    machine::paths,
    requests::{Requests, is_code},
};

/// Timeout of a read. The API server waits 3 s for the whole review.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

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

    /// Completes the facts about a Machine; those of another cluster are not read. On an error the facts that could be read are still added.
    pub(super) async fn complete(
        &self,
        old: Option<&Machine>,
        new: &Machine,
        is_elsewhere: bool,
        facts: &mut ReviewContext,
    ) -> Result<(), Unchecked> {
        // Names from the review become part of request paths.
        let is_name = |name: &&str| naming::is_dns_name(name);
        let Some(namespace) = new.metadata.namespace.as_deref().filter(is_name) else {
            return Ok(());
        };
        let (vm, objects, quotas) = futures::join!(
            async {
                if is_elsewhere {
                    return Ok(None);
                }
                self.virtual_machine(namespace, old, new).await
            },
            self.cloud_init(namespace, old, new),
            async {
                if is_elsewhere {
                    return Ok(Vec::new());
                }
                self.quotas(namespace).await
            },
        );
        let result = vm
            .as_ref()
            .map(drop)
            .and(objects.as_ref().map(drop))
            .and(quotas.as_ref().map(drop))
            .map_err(|unchecked| *unchecked);
        if old.is_none() {
            facts.virtual_machine = vm.unwrap_or_default();
        }
        let objects = objects.unwrap_or_default();
        facts.surroundings.secrets = objects.secrets;
        facts.surroundings.config_maps = objects.config_maps;
        facts.quotas = quotas.unwrap_or_default();
        result
    }

    /// Metadata of a VirtualMachine with the name that a new Machine uses.
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

    /// Objects with the cloud-init data, if the change may refer to others.
    async fn cloud_init(
        &self,
        namespace: &str,
        old: Option<&Machine>,
        new: &Machine,
    ) -> Result<CloudInitObjects, Unchecked> {
        let is_same = old.is_some_and(|old| {
            old.spec.cloud_init == new.spec.cloud_init
                && old.spec.ssh_key_secrets == new.spec.ssh_key_secrets
        });
        let sources: Vec<_> = cloud_init_sources(new).collect();
        if is_same || !sources.iter().all(|it| naming::is_dns_name(it.name)) {
            return Ok(CloudInitObjects::default());
        }
        let mut objects = CloudInitObjects::none();
        for source in sources {
            let name = source.name.to_owned();
            match source.kind {
                SourceKind::Secret => {
                    let path = format!("{}/{name}", paths::secrets(namespace));
                    if let Some(secret) = self.get(&path).await? {
                        objects.secrets.insert(name, Arc::new(secret));
                    }
                }
                SourceKind::ConfigMap => {
                    let path = format!("{}/{name}", paths::config_maps(namespace));
                    if let Some(map) = self.get(&path).await? {
                        objects.config_maps.insert(name, Arc::new(map));
                    }
                }
            }
        }
        Ok(objects)
    }

    async fn quotas(&self, namespace: &str) -> Result<Vec<ResourceQuota>, Unchecked> {
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas");
        let quotas = self.get::<Quotas>(&path).await?;
        Ok(quotas.map(|quotas| quotas.items).unwrap_or_default())
    }

    /// Reads an object; none if it does not exist.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Unchecked> {
        match timeout(READ_TIMEOUT, self.requests.get(path)).await {
            Ok(Ok(value)) => decode::from_value(value).map_err(|_| Unchecked::Unread),
            Ok(Err(error)) if is_code(&error, 404) => Ok(None),
            Ok(Err(_)) | Err(_) => Err(Unchecked::Unread),
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

    /// Runs the reads against an API server that always gives this answer, or none.
    async fn complete(answer: Option<(u16, &'static str)>) -> Result<(), Unchecked> {
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
        live.complete(None, &machine, false, &mut ReviewContext::default())
            .await
    }

    #[rstest]
    #[case::all_found(Some((200, r#"{"metadata":{},"items":[]}"#)), true)]
    #[case::not_found(Some((404, r#"{"code":404}"#)), true)]
    #[case::forbidden(Some((403, r#"{"code":403}"#)), false)]
    #[case::server_error(Some((500, "")), false)]
    #[case::malformed(Some((200, "[]")), false)]
    #[case::no_answer(None, false)]
    #[tokio::test(start_paused = true)]
    async fn a_failed_read_is_reported_as_unchecked(
        #[case] answer: Option<(u16, &'static str)>,
        #[case] is_read: bool,
    ) {
        let expected = if is_read {
            Ok(())
        } else {
            Err(Unchecked::Unread)
        };
        assert_eq!(complete(answer).await, expected);
    }
}
