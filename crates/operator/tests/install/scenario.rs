//! Scenario of installations: a cluster with the KubeVirt operator, and the requests of an administrator.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use kubevirt_operator::kubevirt::{Operator, Options, webhook::Webhook};
use kubevirt_operator::metrics::InstallationMetrics;
use plan::kubevirt::{job::STRATEGY_ACCOUNT, target};
use runtime::{
    client::{CallCounter, Limits, layered},
    election::Fence,
};
use sandbox::Setup;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use crate::harness::objects::{as_value, condition};
use crate::harness::{
    cluster::{TestCluster, documents},
    fault_injection::{Fault, FaultInjector},
    objects, request_checks,
    runner::{self, Need},
    services::Identity,
};

/// Runs a scenario on a cluster of its own.
pub(crate) fn run_scenario(scenario: impl Future<Output = ()>) {
    runner::run_scenario_alone(
        &[Need::Controllers, Need::Services, Need::CurrentApis],
        scenario,
    );
}

/// Runs a scenario in which hours pass, or a deadline of minutes: in the sandbox only.
pub(crate) fn run_scenario_in_virtual_time(scenario: impl Future<Output = ()>) {
    runner::run_scenario_in_sandbox(
        "needs virtual time: minutes or hours have to pass",
        scenario,
    );
}

/// Namespace of the operator and of KubeVirt.
pub(crate) const NAMESPACE: &str = "kubevirt";

/// Name of the KubeVirt resource.
pub(crate) const NAME: &str = "kubevirt";

/// Default registry of images.
pub(crate) const REGISTRY: &str = "registry.example/kubevirt";

/// A cluster with the KubeVirt operator, and what an administrator does there.
pub(crate) struct InstallScenario {
    /// Client with all rights.
    pub(crate) client: Client,
    /// Requests of the operator.
    pub(crate) calls: Arc<CallCounter>,
    /// Faults between the operator and the API server.
    pub(crate) faults: FaultInjector,
    pub(crate) cluster: TestCluster,
    /// Options of the next start of the operator.
    pub(crate) options: Options,
    /// Metrics of the operator that was started last.
    metrics: Option<InstallationMetrics>,
    running: Vec<(CancellationToken, JoinHandle<()>)>,
}

impl InstallScenario {
    /// Starts the operator on a cluster of three nodes, without a KubeVirt resource.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts the operator on a cluster with a changed setup.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Setup)) -> Self {
        let mut scenario = Self::without_operator(change).await;
        scenario.start_operator();
        scenario
    }

    /// Starts a cluster without the operator.
    pub(crate) async fn without_operator(change: impl FnOnce(&mut Setup)) -> Self {
        let scenario = Self::without_rights(change).await;
        scenario.cluster.grant_rights().await;
        scenario
    }

    /// Starts a cluster without the operator's namespace and RBAC objects.
    pub(crate) async fn without_rights(change: impl FnOnce(&mut Setup)) -> Self {
        let cluster = TestCluster::without_rights(change).await;
        let scenario = Self {
            client: cluster.client(),
            calls: Arc::default(),
            faults: FaultInjector::new(),
            cluster,
            options: Options {
                operator: target::Operator {
                    namespace: NAMESPACE.to_owned(),
                    version: "0.0.0-test".to_owned(),
                    image: Some(format!("{REGISTRY}/virt-operator:v1.9.0")),
                    service_account: STRATEGY_ACCOUNT.to_owned(),
                    ..target::Operator::default()
                },
                seed: 1,
                ..Options::default()
            },
            metrics: None,
            running: Vec::new(),
        };
        for object in documents("rbac/virt-operator/priority_class.yaml") {
            sandbox::apply(&scenario.client, object).await.unwrap();
        }
        scenario
    }

    /// Starts a cluster and installs a version of KubeVirt.
    pub(crate) async fn with_version(version: &str) -> Self {
        let scenario = Self::start().await;
        scenario.install(version).await;
        scenario.until_deployed(version).await;
        scenario
    }

    /// Starts the operator with the rights of its ServiceAccount; a second one, if one is running.
    pub(crate) fn start_operator(&mut self) {
        let client = request_checks::reject_null(layered(
            self.faults.wrap(self.cluster.transport()),
            Fence::open(),
            Limits::UNLIMITED,
            Arc::clone(&self.calls) as _,
        ));
        self.serve_webhook();
        let clock = self.cluster.clock();
        let operator = Operator::alone(client, self.options.clone(), clock);
        self.metrics = Some(operator.metrics.clone());
        let token = CancellationToken::new();
        let running = tokio::spawn(operator.run(token.clone()));
        self.running.push((token, running));
    }

    /// Series of a metric of the operator, with their values.
    pub(crate) fn metric_series(&self, metric: &str) -> BTreeMap<String, String> {
        let exposed = self.metrics.as_ref().unwrap().expose();
        let lines = exposed.lines().filter_map(|line| line.rsplit_once(' '));
        let series = lines.filter(|(series, _)| series.split('{').next() == Some(metric));
        series
            .map(|(series, value)| (series.to_owned(), value.to_owned()))
            .collect()
    }

    /// Serves the operator's webhook, which every replica does, leader or not.
    fn serve_webhook(&self) {
        let client = self.cluster.client_of(NAMESPACE, "kubevirt-operator");
        let webhook = Webhook::new(client, self.options.operator.clone());
        self.cluster.serve_service(
            (NAMESPACE, "kubevirt-operator-webhook"),
            Identity::Secret("kubevirt-operator-certs"),
            webhook.handler(),
        );
    }

    /// Shuts the operator down gracefully.
    pub(crate) async fn stop_operator(&mut self) {
        for (token, running) in self.running.drain(..) {
            token.cancel();
            running.await.unwrap();
        }
    }

    /// Aborts the operator, as a crash does.
    pub(crate) async fn kill_operator(&mut self) {
        for (_, running) in self.running.drain(..) {
            running.abort();
            let _ = running.await;
        }
    }

    /// Crashes the operator after its next write and starts another. Returns false if the KubeVirt resource
    /// satisfies `matches` before that write. Writes of Events fail meanwhile, as nothing may depend on
    /// them.
    pub(crate) async fn crash_after_next_write_unless(
        &mut self,
        matches: impl Fn(Option<&Value>) -> bool,
    ) -> bool {
        self.faults
            .inject(|_, path| path.ends_with("/events").then_some(Fault::Refused));
        self.faults.hang_after_writes(1);
        let crashed = tokio::select! {
            biased;
            () = self.faults.until_writes(1) => true,
            _ = self.wait_for("KubeVirt", NAME, "match", matches) => false,
        };
        self.kill_operator().await;
        self.faults.clear();
        self.start_operator();
        crashed
    }

    /// Creates the KubeVirt resource with a version.
    pub(crate) async fn install(&self, version: &str) {
        self.install_with(json!({ "imageTag": version, "imageRegistry": REGISTRY }))
            .await;
    }

    /// Creates the KubeVirt resource with a spec, as soon as its definition is established.
    pub(crate) async fn install_with(&self, spec: Value) {
        let definition = "kubevirts.kubevirt.io";
        self.until("CustomResourceDefinition", definition, |found| {
            condition(found, "Established")["status"] == "True"
        })
        .await;
        let kubevirt = json!({ "metadata": { "name": NAME }, "spec": spec });
        self.create("KubeVirt", kubevirt).await;
    }

    /// Sends a merge patch of the KubeVirt resource's spec.
    pub(crate) async fn patch_spec(&self, spec: Value) {
        self.patch("KubeVirt", NAME, json!({ "spec": spec })).await;
    }

    pub(crate) async fn kubevirt(&self) -> Value {
        self.get("KubeVirt", NAME).await
    }

    /// Waits until a version is deployed and the rollout has ended.
    pub(crate) async fn until_deployed(&self, version: &str) -> Value {
        self.until("KubeVirt", NAME, |kubevirt| is_deployed(kubevirt, version))
            .await
    }

    /// Waits until a condition of the KubeVirt resource has a status.
    pub(crate) async fn until_condition(&self, type_: &str, status: &str) -> Value {
        let kubevirt = self
            .until("KubeVirt", NAME, |kubevirt| {
                condition(kubevirt, type_)["status"] == status
            })
            .await;
        condition(&kubevirt, type_).clone()
    }

    /// Creates an object, in KubeVirt's namespace unless it names another or its kind is cluster-scoped.
    pub(crate) async fn create(&self, kind: &str, object: Value) -> Value {
        self.try_create(kind, object).await.unwrap()
    }

    /// Creates an object, or returns the refusal.
    pub(crate) async fn try_create(&self, kind: &str, mut object: Value) -> Result<Value, String> {
        object["apiVersion"] = resource(kind).api_version.into();
        object["kind"] = kind.into();
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or(NAMESPACE);
        let api = self.api_in(kind, namespace);
        let object = serde_json::from_value(object).unwrap();
        let created = api.create(&PostParams::default(), &object).await;
        created.map(as_value).map_err(|error| error.to_string())
    }

    /// Sends a merge patch under a user's field manager.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> Value {
        self.try_patch(kind, name, patch).await.unwrap()
    }

    /// Sends a merge patch, or returns the refusal.
    pub(crate) async fn try_patch(
        &self,
        kind: &str,
        name: &str,
        patch: Value,
    ) -> Result<Value, String> {
        let params = PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(kind);
        let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
        patched.map(as_value).map_err(|error| error.to_string())
    }

    /// Sets an annotation of the KubeVirt resource.
    pub(crate) async fn annotate(&self, name: &str, value: &str) {
        let annotations = json!({ name: value });
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.patch("KubeVirt", NAME, patch).await;
    }

    /// Sets the fault that the sandbox plays for the pods of a component; an empty text removes it.
    pub(crate) async fn set_fault(&self, kind: &str, name: &str, fault: &str) {
        let annotations = json!({ sandbox::faults::ANNOTATION: fault });
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.patch(kind, name, patch).await;
    }

    /// Deletes an object, as `kubectl delete --wait=false` does.
    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.try_delete(kind, name).await.unwrap();
    }

    /// Deletes an object, or returns the refusal.
    pub(crate) async fn try_delete(&self, kind: &str, name: &str) -> Result<(), String> {
        let api = self.api(kind);
        let deleted = api.delete(name, &DeleteParams::background()).await;
        deleted.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Deletes the KubeVirt resource and waits until it is gone.
    pub(crate) async fn remove(&self) {
        self.delete("KubeVirt", NAME).await;
        self.until_gone("KubeVirt", NAME).await;
    }

    /// Gets an object, if it exists.
    pub(crate) async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map(as_value)
    }

    /// Gets an object that exists.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.find(kind, name).await;
        found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// Lists the objects of a kind, in KubeVirt's namespace unless it is cluster-scoped.
    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        let found = objects::list(&self.api(kind)).await;
        found.items.into_iter().map(as_value).collect()
    }

    /// Waits until an object satisfies `matches`.
    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> Value {
        let found = self
            .wait_for(kind, name, "match", |found| found.is_some_and(&matches))
            .await;
        found.unwrap_or_default()
    }

    /// Waits until an object is deleted.
    pub(crate) async fn until_gone(&self, kind: &str, name: &str) {
        self.wait_for(kind, name, "get deleted", |found| found.is_none())
            .await;
    }

    async fn wait_for(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        matches: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        match objects::wait_for(&self.api(kind), name, self.cluster.timeout(), matches).await {
            Ok(found) => found,
            Err(last) => panic!(
                "{kind} {name} did not {what}: {last}\n{}",
                self.describe_events().await
            ),
        }
    }

    /// Sleeps; in real time for a few seconds at most.
    pub(crate) async fn wait(&self, seconds: u64) {
        self.cluster.wait(seconds).await;
    }

    /// Reason and message of the Events of the KubeVirt resource, in order.
    pub(crate) async fn events(&self) -> Vec<(String, String)> {
        let mut events = self.list("Event").await;
        events.retain(|event| event["involvedObject"]["kind"] == "KubeVirt");
        events.sort_by_key(version);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events
            .iter()
            .map(|event| (text(&event["reason"]), text(&event["message"])))
            .collect()
    }

    /// Requests of the operator since the last call, by verb and resource, without watches.
    pub(crate) fn take_requests(&self) -> BTreeMap<String, u64> {
        let mut requests = BTreeMap::new();
        for ((verb, resource, _), count) in self.calls.take() {
            if verb != "watch" {
                *requests.entry(format!("{verb} {resource}")).or_default() += count;
            }
        }
        requests
    }

    /// Writes of the operator since the last call, by verb and resource, without Events.
    pub(crate) fn take_writes(&self) -> BTreeMap<String, u64> {
        let mut requests = self.take_requests();
        requests.retain(|request, _| {
            let is_read = request.starts_with("get ") || request.starts_with("list ");
            !is_read && !request.ends_with(" events")
        });
        requests
    }

    /// Status and Events of KubeVirt, for the message of a failed scenario.
    async fn describe_events(&self) -> String {
        let mut text = String::new();
        for kubevirt in self.list("KubeVirt").await {
            let _ = writeln!(text, "status: {:#}", kubevirt["status"]);
        }
        for event in self.list("Event").await {
            let (object, message) = (&event["involvedObject"], &event["message"]);
            let _ = writeln!(text, "{} {}: {message}", object["kind"], object["name"]);
        }
        text
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        self.api_in(kind, NAMESPACE)
    }

    pub(crate) fn api_in(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        if is_cluster_scoped(kind) {
            Api::all_with(self.client.clone(), &resource(kind))
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource(kind))
        }
    }
}

/// Whether a KubeVirt resource reports a version as deployed and no rollout in progress.
pub(crate) fn is_deployed(kubevirt: &Value, version: &str) -> bool {
    let status = &kubevirt["status"];
    status["phase"] == "Deployed"
        && status["observedKubeVirtVersion"] == version
        && status["observedDeploymentID"] == status["targetDeploymentID"]
        && status["observedGeneration"] == kubevirt["metadata"]["generation"]
        && condition(kubevirt, "Available")["status"] == "True"
        && condition(kubevirt, "Progressing")["status"] == "False"
}

/// resourceVersion of an object as a number, which grows with each write.
pub(crate) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap().parse().unwrap()
}

/// Group, version and plural of a kind.
pub(crate) fn resource(kind: &str) -> ApiResource {
    let (group, version, plural) = match kind {
        "Pod" => ("", "v1", "pods"),
        "Node" => ("", "v1", "nodes"),
        "Event" => ("", "v1", "events"),
        "Secret" => ("", "v1", "secrets"),
        "Service" => ("", "v1", "services"),
        "PersistentVolumeClaim" => ("", "v1", "persistentvolumeclaims"),
        "ConfigMap" => ("", "v1", "configmaps"),
        "Namespace" => ("", "v1", "namespaces"),
        "ServiceAccount" => ("", "v1", "serviceaccounts"),
        "Job" => ("batch", "v1", "jobs"),
        "Lease" => ("coordination.k8s.io", "v1", "leases"),
        "Deployment" => ("apps", "v1", "deployments"),
        "DaemonSet" => ("apps", "v1", "daemonsets"),
        "PodDisruptionBudget" => ("policy", "v1", "poddisruptionbudgets"),
        "Role" => ("rbac.authorization.k8s.io", "v1", "roles"),
        "RoleBinding" => ("rbac.authorization.k8s.io", "v1", "rolebindings"),
        "ClusterRole" => ("rbac.authorization.k8s.io", "v1", "clusterroles"),
        "ClusterRoleBinding" => ("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
        "APIService" => ("apiregistration.k8s.io", "v1", "apiservices"),
        "ValidatingWebhookConfiguration" => (
            "admissionregistration.k8s.io",
            "v1",
            "validatingwebhookconfigurations",
        ),
        "MutatingWebhookConfiguration" => (
            "admissionregistration.k8s.io",
            "v1",
            "mutatingwebhookconfigurations",
        ),
        "KubeVirt" => ("kubevirt.io", "v1", "kubevirts"),
        "VirtualMachine" => ("kubevirt.io", "v1", "virtualmachines"),
        "VirtualMachineInstancePreset" => ("kubevirt.io", "v1", "virtualmachineinstancepresets"),
        "Plugin" => ("plugin.kubevirt.io", "v1alpha1", "plugins"),
        "VirtualMachineClusterInstancetype" => (
            "instancetype.kubevirt.io",
            "v1beta1",
            "virtualmachineclusterinstancetypes",
        ),
        "VirtualMachineClusterPreference" => (
            "instancetype.kubevirt.io",
            "v1beta1",
            "virtualmachineclusterpreferences",
        ),
        "VirtualMachineInstance" => ("kubevirt.io", "v1", "virtualmachineinstances"),
        "Machine" => ("vitistack.io", "v1alpha1", "machines"),
        "ServiceMonitor" => ("monitoring.coreos.com", "v1", "servicemonitors"),
        "PrometheusRule" => ("monitoring.coreos.com", "v1", "prometheusrules"),
        kind => panic!("unknown kind {kind}: add it to scenario.rs"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn is_cluster_scoped(kind: &str) -> bool {
    matches!(
        kind,
        "Node"
            | "Namespace"
            | "ClusterRole"
            | "ClusterRoleBinding"
            | "CustomResourceDefinition"
            | "APIService"
            | "ValidatingWebhookConfiguration"
            | "MutatingWebhookConfiguration"
            | "Plugin"
            | "VirtualMachineClusterInstancetype"
            | "VirtualMachineClusterPreference"
    )
}

impl Drop for InstallScenario {
    fn drop(&mut self) {
        for (_, running) in self.running.drain(..) {
            running.abort();
        }
    }
}
