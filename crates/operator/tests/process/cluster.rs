//! Sandbox with TLS endpoints that record the requests to its API server.

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

/// Namespace of the operator and its Lease.
pub(crate) const NAMESPACE: &str = "kubevirt-operator-system";

const WEBHOOK: &str = "kubevirt-operator-webhook";

/// Timeout of a wait, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct ProcessCluster {
    cluster: Cluster,
    pub(crate) client: Client,
    certificates: Certificates,
    folder: TempDir,
    token: String,
}

#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) at: Instant,
    pub(crate) method: Method,
    pub(crate) path: String,
}

impl RecordedRequest {
    /// Whether it is a write, other than to a Lease.
    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET && !self.is_lease_request()
    }

    pub(crate) fn is_lease_request(&self) -> bool {
        self.path.contains("/leases")
    }
}

/// Address of the API server, closed when dropped.
pub(crate) struct ApiEndpoint {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    closing: CancellationToken,
}

impl ApiEndpoint {
    /// All requests so far, in order.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// All writes so far, in order, without those to Leases.
    pub(crate) fn writes(&self) -> Vec<RecordedRequest> {
        self.requests()
            .into_iter()
            .filter(RecordedRequest::is_write)
            .collect()
    }

    /// Stops serving.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }
}

impl Drop for ApiEndpoint {
    fn drop(&mut self) {
        self.close();
    }
}

/// CustomResourceDefinitions of this project.
pub(crate) fn definitions() -> Vec<Value> {
    let definitions = api::crds();
    let definitions = definitions.iter();
    definitions
        .map(|definition| serde_json::to_value(definition).unwrap())
        .collect()
}

impl ProcessCluster {
    /// Starts a cluster with this project's definitions.
    pub(crate) async fn start() -> Self {
        Self::with(definitions()).await
    }

    /// Starts a cluster with these definitions.
    pub(crate) async fn with(definitions: Vec<Value>) -> Self {
        let setup = Setup {
            speed: Speed::Instant,
            start: jiff::Timestamp::now(),
            definitions,
            ..Setup::seeded(1)
        };
        let cluster = Cluster::start(setup, None).await.unwrap();
        let mut cluster = Self {
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
            cluster.apply_file(&format!("rbac/{file}")).await;
        }
        cluster.token = cluster.operators_token().await;
        cluster
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

    /// Opens an endpoint for the operator. The name is that of its kubeconfig.
    pub(crate) async fn endpoint(&self, name: &str) -> ApiEndpoint {
        self.endpoint_at(name, (Ipv4Addr::LOCALHOST, 0).into())
            .await
    }

    /// Opens an endpoint at an address.
    pub(crate) async fn endpoint_at(&self, name: &str, address: SocketAddr) -> ApiEndpoint {
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
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (noted, server_behind) = (Arc::clone(&requests), self.cluster.server().by_token());
        let service = tower::service_fn(move |request: Request<_>| {
            noted.lock().unwrap().push(RecordedRequest {
                at: Instant::now(),
                method: request.method().clone(),
                path: request.uri().path().to_owned(),
            });
            server_behind.clone().call(request)
        });
        let closing = CancellationToken::new();
        tokio::spawn(server.serve(service, closing.clone()));
        ApiEndpoint {
            kubeconfig,
            address,
            requests,
            closing,
        }
    }

    /// Applies config/webhook.
    pub(crate) async fn install_webhook(&self) {
        for file in ["service.yaml", "validating_webhook_configuration.yaml"] {
            self.apply_file(&format!("webhook/{file}")).await;
        }
    }

    async fn apply_file(&self, file: &str) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config");
        let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
        for document in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            self.apply(document).await;
        }
    }

    /// Sets the address of the webhook's Service.
    pub(crate) fn locate_webhook(&self, address: SocketAddr) {
        let server = self.cluster.server();
        server.locate_service(NAMESPACE, WEBHOOK, address);
    }

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

    pub(crate) async fn create_machine(&self, name: &str, spec: Value) {
        let machine = json!({ "metadata": { "name": name }, "spec": spec });
        let machine = serde_json::from_value(machine).unwrap();
        let machines: Api<api::Machine> = Api::namespaced(self.client.clone(), "default");
        machines
            .create(&PostParams::default(), &machine)
            .await
            .unwrap();
    }

    /// Waits until a Machine satisfies `matches`.
    pub(crate) async fn until_machine(&self, name: &str, matches: impl Fn(&api::Machine) -> bool) {
        let machines: Api<api::Machine> = Api::namespaced(self.client.clone(), "default");
        let what = format!("Machine {name}");
        until(&what, async || {
            let found = machines.get_opt(name).await.unwrap();
            found.is_some_and(|machine| matches(&machine))
        })
        .await;
    }

    pub(crate) async fn until_running(&self, name: &str) {
        self.until_machine(name, |machine| {
            let status = machine.status.as_ref();
            status.and_then(|status| status.phase) == Some(api::Phase::Running)
        })
        .await;
    }

    /// Holder of the Lease; empty if it is released.
    pub(crate) async fn holder(&self) -> Option<String> {
        let lease = self.objects("coordination.k8s.io", "Lease").await;
        let own = lease.into_iter().find(|lease| {
            lease["metadata"]["name"] == "kubevirt-operator"
                && lease["metadata"]["namespace"] == NAMESPACE
        })?;
        let holder = own["spec"]["holderIdentity"].as_str();
        Some(holder.unwrap_or_default().to_owned())
    }

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

pub(crate) async fn until(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_true().await {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
