//! A cluster that KubeVirt is to be installed in, and somebody who administers it.

use std::{collections::BTreeMap, fmt::Write as _, path::Path, sync::Arc};

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

pub(crate) use crate::stories::objects::{as_value, condition};
use crate::stories::{
    ground::{self, Ground as Place, Need, documents},
    inspect,
    line::{Fault, Line},
    objects,
    services::Identity,
};

/// Runs a story, which has the whole cluster to itself.
pub(crate) fn tell(story: impl Future<Output = ()>) {
    ground::tell_alone(
        &[Need::Controllers, Need::Services, Need::CurrentApis],
        story,
    );
}

/// Runs a story in which hours pass, or a deadline of minutes: in the sandbox only.
pub(crate) fn tell_in_virtual_time(story: impl Future<Output = ()>) {
    ground::tell_in_sandbox("needs virtual time: minutes or hours have to pass", story);
}

/// The namespace of the operator and of KubeVirt.
pub(crate) const NAMESPACE: &str = "kubevirt";

/// The name of the KubeVirt resource.
pub(crate) const NAME: &str = "kubevirt";

/// Where images come from, unless a story says otherwise.
pub(crate) const REGISTRY: &str = "registry.example/kubevirt";

/// A cluster that KubeVirt is to be installed in.
pub(crate) struct Ground {
    /// A client of somebody who may do everything.
    pub(crate) client: Client,
    /// What the operator asked of the API server.
    pub(crate) calls: Arc<CallCounter>,
    /// What the operator speaks to the API server over. Faults and crashes are set here.
    pub(crate) line: Line,
    pub(crate) cluster: Place,
    /// How the operator is started.
    pub(crate) options: Options,
    /// What the operator that was started last counts.
    metrics: Option<InstallationMetrics>,
    running: Vec<(CancellationToken, JoinHandle<()>)>,
}

impl Ground {
    /// A cluster of three nodes where the operator runs, and nobody has asked for KubeVirt yet.
    pub(crate) async fn begin() -> Self {
        Self::begin_with(|_| {}).await
    }

    /// The same on a cluster that is set up otherwise.
    pub(crate) async fn begin_with(change: impl FnOnce(&mut Setup)) -> Self {
        let mut ground = Self::without_operator(change).await;
        ground.start_operator();
        ground
    }

    /// A cluster where the operator does not run yet.
    pub(crate) async fn without_operator(change: impl FnOnce(&mut Setup)) -> Self {
        let ground = Self::without_rights(change).await;
        ground.cluster.grant().await;
        ground
    }

    /// A cluster where the operator may do nothing yet, and has no namespace.
    pub(crate) async fn without_rights(change: impl FnOnce(&mut Setup)) -> Self {
        let cluster = Place::bare(change).await;
        let ground = Self {
            client: cluster.client(),
            calls: Arc::default(),
            line: Line::new(),
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
            sandbox::apply(&ground.client, object).await.unwrap();
        }
        ground
    }

    /// Applies the objects of a file.
    pub(crate) async fn apply_file(&self, path: impl AsRef<Path>) {
        let text = std::fs::read_to_string(path).unwrap();
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            sandbox::apply(&self.client, object).await.unwrap();
        }
    }

    /// A cluster where a version of KubeVirt is installed.
    pub(crate) async fn with(version: &str) -> Self {
        let ground = Self::begin().await;
        ground.install(version).await;
        ground.until_deployed(version).await;
        ground
    }

    /// Starts the operator, with its own rights; another one, if it runs already.
    pub(crate) fn start_operator(&mut self) {
        let client = inspect::without_null(layered(
            self.line.over(self.cluster.transport()),
            Fence::open(),
            Limits::UNLIMITED,
            Arc::clone(&self.calls) as _,
        ));
        self.answer_webhooks();
        let clock = self.cluster.clock();
        let operator = Operator::alone(client, self.options.clone(), clock);
        self.metrics = Some(operator.metrics.clone());
        let token = CancellationToken::new();
        let running = tokio::spawn(operator.run(token.clone()));
        self.running.push((token, running));
    }

    /// The series of a metric that the operator shows, with their values.
    pub(crate) fn figures(&self, metric: &str) -> BTreeMap<String, String> {
        let exposed = self.metrics.as_ref().unwrap().expose();
        let lines = exposed.lines().filter_map(|line| line.rsplit_once(' '));
        let series = lines.filter(|(series, _)| series.split('{').next() == Some(metric));
        series
            .map(|(series, value)| (series.to_owned(), value.to_owned()))
            .collect()
    }

    /// Answers as the operator's webhook, which every replica does whether it leads or not.
    fn answer_webhooks(&self) {
        let client = self.cluster.client_of(NAMESPACE, "kubevirt-operator");
        let webhook = Webhook::new(client, self.options.operator.clone());
        self.cluster.answer_at(
            (NAMESPACE, "kubevirt-operator-webhook"),
            Identity::Secret("kubevirt-operator-certs"),
            webhook.handler(),
        );
    }

    /// Ends the operator as a shutdown does.
    pub(crate) async fn stop_operator(&mut self) {
        for (token, running) in self.running.drain(..) {
            token.cancel();
            running.await.unwrap();
        }
    }

    /// Ends the operator as a crash does: whatever it is doing is left where it is.
    pub(crate) async fn kill_operator(&mut self) {
        for (_, running) in self.running.drain(..) {
            running.abort();
            let _ = running.await;
        }
    }

    /// Lets the operator crash after its next write, and starts another. Says whether there was one
    /// before the KubeVirt resource was as it should be. Events cannot be written meanwhile: nothing
    /// may depend on them.
    pub(crate) async fn crash_after_next_write_unless(
        &mut self,
        is_so: impl Fn(Option<&Value>) -> bool,
    ) -> bool {
        self.line
            .fail(|_, path| path.ends_with("/events").then_some(Fault::Refused));
        self.line.die_after(1);
        let crashed = tokio::select! {
            biased;
            () = self.line.until_writes(1) => true,
            _ = self.follow("KubeVirt", NAME, "become as it should", is_so) => false,
        };
        self.kill_operator().await;
        self.line.mend();
        self.start_operator();
        crashed
    }

    /// Asks for KubeVirt in a version.
    pub(crate) async fn install(&self, version: &str) {
        self.install_with(json!({ "imageTag": version, "imageRegistry": REGISTRY }))
            .await;
    }

    /// Asks for KubeVirt with this spec, as soon as the API server knows what that is.
    pub(crate) async fn install_with(&self, spec: Value) {
        let definition = "kubevirts.kubevirt.io";
        self.until("CustomResourceDefinition", definition, |found| {
            condition(found, "Established")["status"] == "True"
        })
        .await;
        let kubevirt = json!({ "metadata": { "name": NAME }, "spec": spec });
        self.create("KubeVirt", kubevirt).await;
    }

    /// Changes the spec of the KubeVirt resource by a merge patch.
    pub(crate) async fn change(&self, spec: Value) {
        self.patch("KubeVirt", NAME, json!({ "spec": spec })).await;
    }

    /// The KubeVirt resource.
    pub(crate) async fn kubevirt(&self) -> Value {
        self.get("KubeVirt", NAME).await
    }

    /// Waits until a version is deployed, and nothing of it is under way.
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

    /// Creates an object, in KubeVirt's namespace unless it says another or its kind has none.
    pub(crate) async fn create(&self, kind: &str, object: Value) -> Value {
        self.try_create(kind, object).await.unwrap()
    }

    /// Creates an object if it is let in, and tells why it is not.
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

    /// Changes an object by a merge patch, as a person does.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> Value {
        self.try_patch(kind, name, patch).await.unwrap()
    }

    /// Changes an object if that is let in, and tells why it is not.
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

    /// Annotates the KubeVirt resource.
    pub(crate) async fn annotate(&self, name: &str, value: &str) {
        let annotations = json!({ name: value });
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.patch("KubeVirt", NAME, patch).await;
    }

    /// Has the pods of a component fail as the sandbox's word says; an empty one ends that.
    pub(crate) async fn fail(&self, kind: &str, name: &str, word: &str) {
        let annotations = json!({ sandbox::faults::ANNOTATION: word });
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.patch(kind, name, patch).await;
    }

    /// Deletes an object, as `kubectl delete --wait=false` does.
    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.try_delete(kind, name).await.unwrap();
    }

    /// Deletes an object if that is let in, and tells why it is not.
    pub(crate) async fn try_delete(&self, kind: &str, name: &str) -> Result<(), String> {
        let api = self.api(kind);
        let deleted = api.delete(name, &DeleteParams::background()).await;
        deleted.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Deletes the KubeVirt resource, and waits until it is gone.
    pub(crate) async fn remove(&self) {
        self.delete("KubeVirt", NAME).await;
        self.until_gone("KubeVirt", NAME).await;
    }

    /// An object as it is, if it is there.
    pub(crate) async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map(as_value)
    }

    /// An object as it is.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.find(kind, name).await;
        found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// All objects of a kind, in KubeVirt's namespace if it has them.
    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        let found = objects::list(&self.api(kind)).await;
        found.items.into_iter().map(as_value).collect()
    }

    /// Waits until an object is as it should be.
    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let found = self
            .follow(kind, name, "become as it should", |found| {
                found.is_some_and(&is_so)
            })
            .await;
        found.unwrap_or_default()
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone(&self, kind: &str, name: &str) {
        self.follow(kind, name, "go", |found| found.is_none()).await;
    }

    /// Follows an object until it is as it should be.
    async fn follow(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        is_so: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        match objects::follow(&self.api(kind), name, self.cluster.patience(), is_so).await {
            Ok(found) => found,
            Err(last) => panic!(
                "{kind} {name} did not {what}: {last}\n{}",
                self.told().await
            ),
        }
    }

    /// Lets time pass: so many seconds, or a few where they are real.
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

    /// What the operator has asked of the API server since the last time, by verb and resource, but
    /// for watches.
    pub(crate) fn asked(&self) -> BTreeMap<String, u64> {
        let mut asked = BTreeMap::new();
        for ((verb, resource, _), count) in self.calls.take() {
            if verb != "watch" {
                *asked.entry(format!("{verb} {resource}")).or_default() += count;
            }
        }
        asked
    }

    /// What the operator has written since the last time, by verb and resource, but for Events.
    pub(crate) fn written(&self) -> BTreeMap<String, u64> {
        let mut asked = self.asked();
        asked.retain(|what, _| {
            let is_read = what.starts_with("get ") || what.starts_with("list ");
            !is_read && !what.ends_with(" events")
        });
        asked
    }

    /// All that was told of KubeVirt, for when a story fails.
    async fn told(&self) -> String {
        let mut told = String::new();
        for kubevirt in self.list("KubeVirt").await {
            let _ = writeln!(told, "status: {:#}", kubevirt["status"]);
        }
        for event in self.list("Event").await {
            let (object, message) = (&event["involvedObject"], &event["message"]);
            let _ = writeln!(told, "{} {}: {message}", object["kind"], object["name"]);
        }
        told
    }

    /// The objects of a kind, in KubeVirt's namespace if it has them.
    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        self.api_in(kind, NAMESPACE)
    }

    /// The objects of a kind in a namespace.
    pub(crate) fn api_in(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        if is_of_the_cluster(kind) {
            Api::all_with(self.client.clone(), &resource(kind))
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource(kind))
        }
    }
}

/// Whether a KubeVirt resource says that a version is deployed, and nothing is under way.
pub(crate) fn is_deployed(kubevirt: &Value, version: &str) -> bool {
    let status = &kubevirt["status"];
    status["phase"] == "Deployed"
        && status["observedKubeVirtVersion"] == version
        && status["observedDeploymentID"] == status["targetDeploymentID"]
        && status["observedGeneration"] == kubevirt["metadata"]["generation"]
        && condition(kubevirt, "Available")["status"] == "True"
        && condition(kubevirt, "Progressing")["status"] == "False"
}

/// The version of an object, which is greater the later it was written.
pub(crate) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap().parse().unwrap()
}

/// How the API server serves a kind.
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
        kind => panic!("stories know no {kind}"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn is_of_the_cluster(kind: &str) -> bool {
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

impl Drop for Ground {
    fn drop(&mut self) {
        for (_, running) in self.running.drain(..) {
            running.abort();
        }
    }
}
