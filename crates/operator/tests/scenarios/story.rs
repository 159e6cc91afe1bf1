//! The ground that stories are told on.

use std::{sync::Arc, time::Duration};

use kube::{
    Client,
    api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use kubevirt_operator::machine::{Operator, Options};
use runtime::{
    client::{Counter, Limits, layered},
    election::Fence,
};
use sandbox::{Cluster, Setup};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

/// How long something may take that is to happen, on paused time.
const PATIENCE: Duration = Duration::from_secs(600);

/// A cluster with an operator, and somebody who uses it.
pub(crate) struct Story {
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) calls: Arc<Counter>,
    namespace: String,
    operator: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Story {
    /// Begins on a cluster of three nodes with KubeVirt, CDI and Multus.
    pub(crate) async fn begin() -> Self {
        Self::begin_with(|_| {}).await
    }

    /// Begins on a cluster that is set up otherwise.
    pub(crate) async fn begin_with(change: impl FnOnce(&mut Setup)) -> Self {
        let mut story = Self::without_operator(change).await;
        story.start_operator();
        story
    }

    /// Begins before the operator does.
    pub(crate) async fn without_operator(change: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup {
            definitions: api::crds()
                .iter()
                .map(|definition| serde_json::to_value(definition).unwrap())
                .collect(),
            ..Setup::seeded(1)
        };
        change(&mut setup);
        let cluster = Cluster::start(setup, None).await.unwrap();
        let client = cluster.client();
        let story = Self {
            cluster,
            client,
            calls: Arc::default(),
            namespace: "default".to_owned(),
            operator: None,
        };
        story.grant().await;
        story
    }

    /// Gives the operator's service account the rights of config/rbac.
    async fn grant(&self) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/rbac");
        for file in [
            "service_account.yaml",
            "role.yaml",
            "role_binding.yaml",
            "leader_election_role.yaml",
        ] {
            let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
            self.apply(&text).await;
        }
    }

    /// Starts the operator, with its own rights.
    pub(crate) fn start_operator(&mut self) {
        let server = self.cluster.server();
        let account = "kubevirt-operator-controller-manager";
        let transport = server.client_of("kubevirt-operator-system", account);
        let client = layered(
            transport,
            Fence::open(),
            Limits::UNLIMITED,
            Arc::clone(&self.calls) as _,
        );
        let clock = server.clone();
        let operator = Operator::alone(
            client,
            Options {
                namespaces: Vec::new(),
                reconcile_interval: Duration::from_secs(30),
                concurrency: 5,
                seed: 1,
            },
            Arc::new(move || clock.now()),
        );
        let token = CancellationToken::new();
        let running = tokio::spawn(operator.run(token.clone()));
        self.operator = Some((token, running));
    }

    /// Ends the operator as a shutdown does.
    pub(crate) async fn stop_operator(&mut self) {
        if let Some((token, running)) = self.operator.take() {
            token.cancel();
            running.await.unwrap();
        }
    }

    /// Ends the operator as a crash does: whatever it is doing is left where it is.
    pub(crate) async fn kill_operator(&mut self) {
        if let Some((_, running)) = self.operator.take() {
            running.abort();
            let _ = running.await;
        }
    }

    /// Applies documents as `kubectl apply --server-side` does.
    pub(crate) async fn apply(&self, yaml: &str) {
        for document in yaml.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            if !object.is_null() {
                sandbox::apply(&self.client, object).await.unwrap();
            }
        }
    }

    /// Creates a Machine, and expects the API server to take it.
    pub(crate) async fn machine(&self, name: &str, spec: Value) {
        let machine = json!({
            "apiVersion": api::API_VERSION, "kind": "Machine",
            "metadata": { "name": name, "namespace": self.namespace }, "spec": spec,
        });
        let api = self.api("Machine");
        let machine = serde_json::from_value(machine).unwrap();
        api.create(&PostParams::default(), &machine).await.unwrap();
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> Value {
        let api = self.api(kind);
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        serde_json::to_value(patched).unwrap()
    }

    /// Deletes an object, as `kubectl delete --wait=false` does.
    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        let api = self.api(kind);
        api.delete(name, &kube::api::DeleteParams::default())
            .await
            .unwrap();
    }

    /// An object as it is, if it is there.
    pub(crate) async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    /// An object as it is.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.find(kind, name).await;
        found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// All objects of a kind in the namespace.
    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        let found = self.api(kind).list(&ListParams::default()).await.unwrap();
        let items = found.items.into_iter();
        items
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    /// Waits until an object is as it should be.
    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.find(kind, name).await;
            if let Some(found) = found.as_ref().filter(|found| is_so(found)) {
                return found.clone();
            }
            assert!(
                Instant::now() < deadline,
                "{kind} {name} did not become as it should: {}",
                serde_json::to_string_pretty(&found).unwrap()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone(&self, kind: &str, name: &str) {
        let deadline = Instant::now() + PATIENCE;
        while let Some(found) = self.find(kind, name).await {
            assert!(
                Instant::now() < deadline,
                "{kind} {name} did not go: {found:#}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a Machine is in a phase.
    pub(crate) async fn until_phase(&self, name: &str, phase: &str) -> Value {
        self.until("Machine", name, |machine| {
            machine["status"]["phase"] == phase
        })
        .await
    }

    /// Waits until a condition of a Machine has a status.
    pub(crate) async fn until_condition(&self, name: &str, type_: &str, status: &str) -> Value {
        let machine = self
            .until("Machine", name, |machine| {
                condition(machine, type_)["status"] == status
            })
            .await;
        condition(&machine, type_).clone()
    }

    /// Lets time pass.
    pub(crate) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// What people are told of a Machine: reason and message of its Events, in order.
    pub(crate) async fn events(&self, machine: &str) -> Vec<(String, String)> {
        let mut events = self.list("Event").await;
        events.retain(|event| {
            event["involvedObject"]["kind"] == "Machine"
                && event["involvedObject"]["name"] == machine
        });
        events.sort_by_key(|event| {
            let version = event["metadata"]["resourceVersion"].as_str().unwrap();
            version.parse::<u64>().unwrap()
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events
            .iter()
            .map(|event| (text(&event["reason"]), text(&event["message"])))
            .collect()
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version, plural) = match kind {
            "Machine" => ("vitistack.io", "v1alpha1", "machines"),
            "MachineClass" => ("vitistack.io", "v1alpha1", "machineclasses"),
            "NetworkConfiguration" => ("vitistack.io", "v1alpha1", "networkconfigurations"),
            "VirtualMachine" => ("kubevirt.io", "v1", "virtualmachines"),
            "VirtualMachineInstance" => ("kubevirt.io", "v1", "virtualmachineinstances"),
            "DataVolume" => ("cdi.kubevirt.io", "v1beta1", "datavolumes"),
            "NetworkAttachmentDefinition" => {
                ("k8s.cni.cncf.io", "v1", "network-attachment-definitions")
            }
            "PersistentVolumeClaim" => ("", "v1", "persistentvolumeclaims"),
            "Secret" => ("", "v1", "secrets"),
            "Pod" => ("", "v1", "pods"),
            "Node" => ("", "v1", "nodes"),
            "Namespace" => ("", "v1", "namespaces"),
            "Event" => ("", "v1", "events"),
            "ResourceQuota" => ("", "v1", "resourcequotas"),
            "StorageClass" => ("storage.k8s.io", "v1", "storageclasses"),
            "CustomResourceDefinition" => {
                ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            }
            kind => panic!("stories know no {kind}"),
        };
        let kind_of = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind_of, plural);
        let is_of_the_cluster = matches!(
            kind,
            "MachineClass" | "Node" | "Namespace" | "StorageClass" | "CustomResourceDefinition"
        );
        if is_of_the_cluster {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        }
    }
}

/// A condition of an object; null if there is none of that type.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == type_);
    found.unwrap_or(&Value::Null)
}

impl Story {
    /// Changes the spec of a Machine by a merge patch.
    pub(crate) async fn change(&self, machine: &str, spec: Value) {
        self.patch("Machine", machine, json!({ "spec": spec }))
            .await;
    }

    /// Creates an object, or changes it, as an administrator.
    pub(crate) async fn give(&self, object: Value) {
        sandbox::apply(&self.client, object).await.unwrap();
    }

    /// How many writes to a resource the operator has tried; to all of them, Events aside, for "".
    pub(crate) fn writes(&self, resource: &str) -> u64 {
        let counts = self.calls.snapshot();
        let writes = counts.iter().filter(|((verb, of, _), _)| {
            !["get", "list", "watch"].contains(verb)
                && (of == resource || resource.is_empty() && of != "events")
        });
        writes.map(|(_, count)| count).sum()
    }

    /// Whether an Event of a Machine has this reason.
    pub(crate) async fn was_told(&self, machine: &str, reason: &str) -> bool {
        let events = self.events(machine).await;
        events.iter().any(|(told, _)| told == reason)
    }
}
