//! A cluster, and doors to it: addresses of its API server that note who asks for what.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use http::{Method, Request};
use kube::{
    Client,
    api::{Api, DeleteParams, DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use sandbox::{
    Cluster, Setup, Speed,
    serve::{Certificates, Kubeconfig, Limits, Server},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

/// Where the operator and its Lease are.
pub(crate) const NAMESPACE: &str = "kubevirt-operator-system";

/// The Service of the webhook.
const WEBHOOK: &str = "kubevirt-operator-webhook";

/// How long anything may take that is to happen, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster.
pub(crate) struct Ground {
    cluster: Cluster,
    pub(crate) client: Client,
    certificates: Certificates,
    folder: TempDir,
    token: String,
}

/// A request, as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) method: Method,
    pub(crate) path: String,
}

impl Seen {
    /// Whether it would change something other than a Lease.
    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET && !self.is_of_lease()
    }

    pub(crate) fn is_of_lease(&self) -> bool {
        self.path.contains("/leases")
    }
}

/// An address of the API server. It is closed when it is dropped.
pub(crate) struct Door {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    closing: CancellationToken,
}

impl Door {
    /// All requests up to now, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The writes up to now, in order, those to Leases left out.
    pub(crate) fn writes(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(Seen::is_write).collect()
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.close();
    }
}

/// The definitions of our own kinds.
pub(crate) fn definitions() -> Vec<Value> {
    let definitions = api::crds();
    let definitions = definitions.iter();
    definitions
        .map(|definition| serde_json::to_value(definition).unwrap())
        .collect()
}

impl Ground {
    /// A cluster that has our kinds.
    pub(crate) async fn start() -> Self {
        Self::with(definitions()).await
    }

    /// A cluster that has these kinds besides KubeVirt's.
    pub(crate) async fn with(definitions: Vec<Value>) -> Self {
        let setup = Setup {
            speed: Speed::Instant,
            start: jiff::Timestamp::now(),
            definitions,
            ..Setup::seeded(1)
        };
        let cluster = Cluster::start(setup, None).await.unwrap();
        let mut ground = Self {
            client: cluster.client(),
            cluster,
            certificates: Certificates::generate().unwrap(),
            folder: tempfile::tempdir().unwrap(),
            token: String::new(),
        };
        for file in [
            "00_namespace.yaml",
            "service_account.yaml",
            "role.yaml",
            "role_binding.yaml",
            "leader_election_role.yaml",
            "webhook_role.yaml",
        ] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/rbac");
            let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
            for document in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
                ground.apply(document).await;
            }
        }
        ground.token = ground.operators_token().await;
        ground
    }

    async fn operators_token(&self) -> String {
        let path = format!(
            "/api/v1/namespaces/{NAMESPACE}/serviceaccounts/kubevirt-operator-controller-manager/token"
        );
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "expirationSeconds": 3600, "audiences": [] },
        });
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&review).unwrap())
            .unwrap();
        let answer: Value = self.client.request(request).await.unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Opens a door for the operator. Its name is that of its kubeconfig.
    pub(crate) async fn door(&self, name: &str) -> Door {
        self.door_at(name, (Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Opens a door at an address.
    pub(crate) async fn door_at(&self, name: &str, address: SocketAddr) -> Door {
        let server = Server::bind(address, &self.certificates, Limits::default())
            .await
            .unwrap();
        let address = server.address();
        let kubeconfig = self.folder.path().join(name);
        Kubeconfig {
            address,
            authority_pem: self.certificates.authority_pem(),
            token: &self.token,
            namespace: "default",
        }
        .write(&kubeconfig)
        .unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (noted, server_behind) = (Arc::clone(&seen), self.cluster.server().by_token());
        let service = tower::service_fn(move |request: Request<_>| {
            noted.lock().unwrap().push(Seen {
                at: Instant::now(),
                method: request.method().clone(),
                path: request.uri().path().to_owned(),
            });
            server_behind.clone().call(request)
        });
        let closing = CancellationToken::new();
        tokio::spawn(server.serve(service, closing.clone()));
        Door {
            kubeconfig,
            address,
            seen,
            closing,
        }
    }

    /// Brings what tells API servers of the webhook.
    pub(crate) async fn install_webhook(&self) {
        self.apply(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": WEBHOOK, "namespace": NAMESPACE },
            "spec": { "ports": [{ "port": 443, "targetPort": 9443 }] },
        }))
        .await;
        let webhooks = ["machines", "machineclasses", "networkconfigurations"].map(|resource| {
            json!({
                "name": format!("{resource}.vitistack.io"),
                "clientConfig": { "service": {
                    "name": WEBHOOK, "namespace": NAMESPACE,
                    "path": format!("/validate/{resource}"),
                } },
                "rules": [{
                    "apiGroups": ["vitistack.io"], "apiVersions": ["*"], "resources": [resource],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                }],
                "failurePolicy": "Ignore", "timeoutSeconds": 3, "sideEffects": "None",
                "matchPolicy": "Equivalent", "admissionReviewVersions": ["v1"],
            })
        });
        self.apply(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "kubevirt-operator" }, "webhooks": webhooks,
        }))
        .await;
    }

    /// Says where the Service of the webhook is.
    pub(crate) fn locate_webhook(&self, address: SocketAddr) {
        let server = self.cluster.server();
        server.locate_service(NAMESPACE, WEBHOOK, address);
    }

    /// Deletes a Machine.
    pub(crate) async fn delete_machine(&self, name: &str) {
        let machines: Api<api::Machine> = Api::namespaced(self.client.clone(), "default");
        machines
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Applies an object as `kubectl apply --server-side` does.
    pub(crate) async fn apply(&self, object: Value) {
        sandbox::apply(&self.client, object).await.unwrap();
    }

    /// Creates a Machine.
    pub(crate) async fn machine(&self, name: &str, spec: Value) {
        let machine = json!({ "metadata": { "name": name }, "spec": spec });
        let machine = serde_json::from_value(machine).unwrap();
        let machines: Api<api::Machine> = Api::namespaced(self.client.clone(), "default");
        machines
            .create(&PostParams::default(), &machine)
            .await
            .unwrap();
    }

    /// Waits until a Machine is as it should be.
    pub(crate) async fn until_machine(&self, name: &str, is_so: impl Fn(&api::Machine) -> bool) {
        let machines: Api<api::Machine> = Api::namespaced(self.client.clone(), "default");
        let what = format!("Machine {name}");
        until(&what, async || {
            let found = machines.get_opt(name).await.unwrap();
            found.is_some_and(|machine| is_so(&machine))
        })
        .await;
    }

    /// Waits until a Machine runs.
    pub(crate) async fn until_running(&self, name: &str) {
        self.until_machine(name, |machine| {
            let status = machine.status.as_ref();
            status.and_then(|status| status.phase) == Some(api::Phase::Running)
        })
        .await;
    }

    /// Who holds the Lease; nobody: empty.
    pub(crate) async fn holder(&self) -> Option<String> {
        let lease = self.objects("coordination.k8s.io", "Lease").await;
        let ours = lease.into_iter().find(|lease| {
            lease["metadata"]["name"] == "kubevirt-operator"
                && lease["metadata"]["namespace"] == NAMESPACE
        })?;
        let holder = ours["spec"]["holderIdentity"].as_str();
        Some(holder.unwrap_or_default().to_owned())
    }

    /// All objects of a kind.
    pub(crate) async fn objects(&self, group: &str, kind: &str) -> Vec<Value> {
        let version = match group {
            "vitistack.io" => "v1alpha1",
            _ => "v1",
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let found = api.list(&ListParams::default()).await.unwrap();
        let items = found.items.iter();
        items
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
