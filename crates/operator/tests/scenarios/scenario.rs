//! Scenario of Machines: a cluster with the operator, and the requests of a user.

mod observe;

use std::{sync::Arc, time::Duration};

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use kubevirt_operator::machine::{Operator, Options};
use kubevirt_operator::metrics::Metrics;
use plan::machine::{PassedOn, Provider};
use runtime::{
    client::{CallCounter, Limits, layered},
    election::Fence,
    probes::Health,
};
use sandbox::{ApiServer, Component, Setup};
use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub(crate) use crate::harness::objects::condition;
use crate::{
    SUITE,
    harness::{
        cluster::{TestCluster, documents},
        fault_injection::FaultInjector,
        request_checks,
        services::{Identity, Trust},
    },
    kinds,
    recording::WatchRecording,
};

/// The Service of the operator's webhook.
pub(crate) const WEBHOOK: (&str, &str) = ("kubevirt-operator-system", "kubevirt-operator-webhook");

/// A cluster with the operator, and what a user does there.
pub(crate) struct Scenario {
    pub(crate) client: Client,
    /// Requests of the operator.
    pub(crate) calls: Arc<CallCounter>,
    /// Faults between the operator and the API server.
    pub(crate) faults: FaultInjector,
    pub(crate) cluster: TestCluster,
    pub(crate) namespace: String,
    /// Metrics of the operator that was started last.
    pub(crate) metrics: Metrics,
    /// Health of the operator that was started last.
    health: Health,
    /// Serving certificate of the webhook, if it is configured.
    webhook: Option<Identity>,
    operator: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Scenario {
    /// Starts the operator on a cluster of three nodes with KubeVirt, CDI and Multus.
    pub(crate) async fn start() -> Self {
        let mut scenario = Self::without_operator().await;
        scenario.start_operator();
        scenario
    }

    /// Starts a cluster without the operator.
    pub(crate) async fn without_operator() -> Self {
        Self::on_cluster(TestCluster::start().await).await
    }

    /// Starts the operator on a cluster with a changed setup.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Setup)) -> Self {
        let mut scenario = Self::without_operator_on(change).await;
        scenario.start_operator();
        scenario
    }

    /// Starts a cluster with a changed setup, without the operator.
    pub(crate) async fn without_operator_on(change: impl FnOnce(&mut Setup)) -> Self {
        let cluster = TestCluster::without_rights(change).await;
        cluster.grant_rights().await;
        Self::on_cluster(cluster).await
    }

    /// Starts the operator on a cluster whose API server calls the operator's webhook.
    pub(crate) async fn with_webhook() -> Self {
        let mut scenario = Self::without_operator_on(|_| {}).await;
        scenario.configure_webhook().await;
        scenario.start_operator();
        scenario.until_operator_is_ready().await;
        scenario
    }

    /// Waits until the operator's caches are filled and its webhook is reachable.
    pub(crate) async fn until_operator_is_ready(&self) {
        let ready = async {
            while !self.health.ready().to_string().contains("[+]caches") {
                sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = timeout(self.cluster.timeout(), ready).await;
        assert!(waited.is_ok(), "{}", self.health.ready());
        self.wait(1).await;
    }

    /// Starts a cluster for many Machines, without the operator: KubeVirt's kinds have no schema, whose
    /// validation takes most of the time, and there is a class without disks.
    pub(crate) async fn for_many_machines() -> Self {
        let scenario = Self::without_operator_on(|setup| {
            setup.without = [Component::KubeVirt, Component::Cdi, Component::Multus].into();
            let kinds = ["VirtualMachine", "VirtualMachineInstance"];
            setup.definitions.extend(kinds.map(kinds::without_schema));
        })
        .await;
        scenario
            .apply_object(json!({
                "apiVersion": api::API_VERSION, "kind": "MachineClass",
                "metadata": { "name": "diskless" },
                "spec": { "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" } },
            }))
            .await;
        scenario
    }

    /// Creates a stopped Machine of the class without disks.
    pub(crate) async fn create_idle_machine(&self, name: &str) {
        let spec = json!({
            "machineClass": "diskless", "bootOrder": ["network"], "powerState": "Stopped",
        });
        self.create_machine(name, spec).await;
    }

    /// Waits until all Machines of the namespace are in a phase.
    pub(crate) async fn until_all(&self, phase: &str) {
        let waiting = async {
            loop {
                let machines = self.list("Machine").await;
                let mut phases = machines.iter().map(|machine| &machine["status"]["phase"]);
                if phases.all(|found| found == phase) {
                    return;
                }
                sleep(Duration::from_secs(1)).await;
            }
        };
        let waited = timeout(self.cluster.timeout(), waiting).await;
        assert!(waited.is_ok(), "not all Machines became {phase}");
    }

    async fn on_cluster(cluster: TestCluster) -> Self {
        let namespace = cluster.namespace().await;
        Self {
            client: cluster.client(),
            calls: Arc::default(),
            faults: FaultInjector::new(),
            cluster,
            namespace,
            metrics: Metrics::new("test"),
            health: Health::new(),
            webhook: None,
            operator: None,
        }
    }

    /// API server of the sandbox.
    pub(crate) fn server(&self) -> &ApiServer {
        self.cluster.server()
    }

    /// Starts the operator with the rights of its ServiceAccount.
    pub(crate) fn start_operator(&mut self) {
        self.start_operator_with(|_| {});
    }

    /// Starts the operator with other options.
    pub(crate) fn start_operator_with(&mut self, change: impl FnOnce(&mut Options)) {
        self.start_changed_operator(|operator| change(&mut operator.options));
    }

    /// Starts the operator after a change to it.
    pub(crate) fn start_changed_operator(&mut self, change: impl FnOnce(&mut Operator)) {
        let client = request_checks::reject_null(layered(
            self.faults.wrap(self.cluster.transport()),
            Fence::open(),
            Limits::UNLIMITED,
            Arc::clone(&self.calls) as _,
        ));
        let mut operator = Operator::alone(client, self.options(), self.cluster.clock());
        change(&mut operator);
        self.metrics = operator.metrics.clone();
        self.health = operator.health.clone();
        if let Some(identity) = &self.webhook {
            let handler = operator.webhook().handler();
            self.cluster
                .serve_service(WEBHOOK, identity.clone(), handler);
        }
        let token = CancellationToken::new();
        let running = tokio::spawn(operator.run(token.clone()));
        self.operator = Some((token, running));
    }

    /// Value of a metric of the operator, such as `queue_depth`.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let exposed = self.metrics.expose();
        let prefix = format!("kubevirt_operator_{series} ");
        let value = exposed.lines().find_map(|line| line.strip_prefix(&prefix));
        value.map(|value| value.parse().unwrap())
    }

    /// Options of the operator. On a shared cluster it watches the namespace of this scenario only.
    pub(crate) fn options(&self) -> Options {
        let namespaces = if self.cluster.is_shared() {
            vec![self.namespace.clone()]
        } else {
            Vec::new()
        };
        Options {
            namespaces,
            // The examples clone disks from there.
            clone_source_namespaces: ["golden-images".to_owned()].into(),
            passed_on: PassedOn::none(),
            provider: Provider::default(),
            kubevirt_config: None,
            reconcile_interval: Duration::from_secs(30),
            concurrency: 5,
            watch_secrets: true,
            key_secret: None,
            seed: 1,
        }
    }

    /// Shuts the operator down gracefully.
    pub(crate) async fn stop_operator(&mut self) {
        if let Some((token, running)) = self.operator.take() {
            token.cancel();
            running.await.unwrap();
        }
    }

    /// Aborts the operator, as a crash does.
    pub(crate) async fn kill_operator(&mut self) {
        if let Some((_, running)) = self.operator.take() {
            running.abort();
            let _ = running.await;
        }
    }

    /// Applies YAML documents as `kubectl apply --server-side` does.
    pub(crate) async fn apply(&self, yaml: &str) {
        apply(&self.client, &self.namespace, yaml).await;
    }

    /// Grants the operator the right to clone disks from a namespace, which is created if it does not exist.
    pub(crate) async fn allow_clones_from(&self, namespace: &str) {
        let (own, account) = SUITE.account;
        let rights = format!(
            "
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: clone-source, namespace: {namespace}}}
rules:
  - {{apiGroups: [cdi.kubevirt.io], resources: [datavolumes/source], verbs: [create]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: clone-source, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: clone-source}}
subjects:
  - {{kind: ServiceAccount, name: {account}, namespace: {own}}}
"
        );
        self.apply(&rights).await;
    }

    /// Creates an object, in the scenario's namespace unless its kind is cluster-scoped.
    pub(crate) async fn create(&self, kind: &str, mut object: Value) -> Value {
        let resource = kinds::resource(kind);
        object["apiVersion"] = resource.api_version.into();
        object["kind"] = kind.into();
        let object = serde_json::from_value(object).unwrap();
        let created = self.api(kind).create(&PostParams::default(), &object).await;
        serde_json::to_value(created.unwrap()).unwrap()
    }

    /// Creates a Machine, and panics if the API server refuses it.
    pub(crate) async fn create_machine(&self, name: &str, spec: Value) {
        let machine = json!({ "metadata": { "name": name }, "spec": spec });
        self.create("Machine", machine).await;
    }

    /// Sends a merge patch.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> Value {
        let api = self.api(kind);
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        serde_json::to_value(patched).unwrap()
    }

    /// Sends a merge patch of a Machine's spec.
    pub(crate) async fn patch_spec(&self, machine: &str, spec: Value) {
        self.patch("Machine", machine, json!({ "spec": spec }))
            .await;
    }

    /// Applies an object as an administrator.
    pub(crate) async fn apply_object(&self, object: Value) {
        apply_object(&self.client, &self.namespace, object).await;
    }

    /// Deletes an object, as `kubectl delete --wait=false` does.
    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.delete_with(kind, name, DeleteParams::background())
            .await;
    }

    pub(crate) async fn delete_with(&self, kind: &str, name: &str, params: DeleteParams) {
        let api = self.api(kind);
        api.delete(name, &params).await.unwrap();
    }

    /// Calls a subresource of a VirtualMachine, as virtctl does.
    pub(crate) async fn virtctl(&self, call: &str, name: &str) {
        let namespace = &self.namespace;
        let path = format!(
            "/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachines/{name}/{call}"
        );
        loop {
            let request = http::Request::put(&path)
                .header("content-type", "application/json")
                .body(b"{}".to_vec())
                .unwrap();
            match self.client.request_text(request).await {
                // The VirtualMachine changed in the meantime: retry, as a user would.
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    sleep(Duration::from_millis(50)).await;
                }
                answer => return drop(answer.unwrap()),
            }
        }
    }

    /// Gets an object, if it exists.
    pub(crate) async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    /// Gets an object that exists.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.find(kind, name).await;
        found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// Lists the objects of a kind in the scenario's namespace.
    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        let found = self.api(kind).list(&ListParams::default()).await.unwrap();
        let items = found.items.into_iter();
        items
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    /// Starts to record all watch events of these kinds.
    pub(crate) async fn record(&self, kinds: &[&'static str]) -> WatchRecording {
        let recording = WatchRecording::default();
        for kind in kinds {
            recording.start(kind, self.api(kind)).await;
        }
        recording
    }

    /// Installs a component that the setup left out.
    pub(crate) async fn install(&self, component: Component) {
        self.cluster.install(component).await;
    }

    /// Applies config/webhook, so that the API server calls the operator's webhook.
    async fn configure_webhook(&mut self) {
        let trust = Trust::for_service(WEBHOOK, self.cluster.clock()());
        for file in ["service.yaml", "validating_webhook_configuration.yaml"] {
            for mut object in documents(&format!("webhook/{file}")) {
                let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
                for webhook in webhooks.into_iter().flatten() {
                    webhook["clientConfig"]["caBundle"] = trust.bundle.clone().into();
                }
                sandbox::apply(&self.client, object).await.unwrap();
            }
        }
        self.webhook = Some(trust.identity);
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = kinds::resource(kind);
        if kinds::is_cluster_scoped(kind) {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        }
    }
}

impl Drop for Scenario {
    /// On a shared cluster, deletes the scenario's objects.
    fn drop(&mut self) {
        let TestCluster::Real(cluster) = &self.cluster else {
            return;
        };
        if cluster.is_alone {
            if let Some((_, running)) = self.operator.take() {
                running.abort();
            }
            return;
        }
        let operator = self.operator.take();
        let machines = self.api("Machine");
        let namespaces = self.api("Namespace");
        let namespace = self.namespace.clone();
        cluster.spawn_cleanup(async move {
            let (now, all) = (DeleteParams::default(), ListParams::default());
            let deleted = async {
                let _ = machines.delete_collection(&now, &all).await;
                while machines
                    .list(&all)
                    .await
                    .is_ok_and(|list| !list.items.is_empty())
                {
                    sleep(Duration::from_millis(100)).await;
                }
            };
            // A failed scenario may leave objects behind; its failure has been printed.
            let _ = timeout(Duration::from_secs(20), deleted).await;
            if let Some((token, running)) = operator {
                token.cancel();
                let _ = timeout(Duration::from_secs(10), running).await;
            }
            let removed = namespaces.delete(&namespace, &now);
            let _ = timeout(Duration::from_secs(10), removed).await;
        });
    }
}

async fn apply(client: &Client, namespace: &str, yaml: &str) {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    for object in documents {
        apply_object(client, namespace, object).await;
    }
}

async fn apply_object(client: &Client, namespace: &str, mut object: Value) {
    let kind = object["kind"].as_str().unwrap_or_default();
    if !kinds::is_cluster_scoped(kind) && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = namespace.into();
    }
    sandbox::apply(client, object).await.unwrap();
}
