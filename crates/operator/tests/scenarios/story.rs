//! A cluster with an operator, and somebody who uses it.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use kubevirt_operator::machine::{Operator, Options};
use kubevirt_operator::metrics::Metrics;
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

pub(crate) use crate::stories::objects::condition;
use crate::{
    SUITE, kinds,
    record::Record,
    stories::{
        ground::{Ground, documents},
        inspect,
        line::Line,
        objects,
        services::{Identity, Trust},
    },
};

/// The Service of the operator's webhook.
pub(crate) const WEBHOOK: (&str, &str) = ("kubevirt-operator-system", "kubevirt-operator-webhook");

/// A cluster with an operator, and somebody who uses it.
pub(crate) struct Story {
    pub(crate) client: Client,
    /// What the operator asked of the API server.
    pub(crate) calls: Arc<CallCounter>,
    /// What the operator speaks to the API server over.
    pub(crate) line: Line,
    pub(crate) ground: Ground,
    pub(crate) namespace: String,
    /// What the operator that was started last counts.
    pub(crate) metrics: Metrics,
    /// What the operator that was started last says of its health.
    health: Health,
    /// What the webhook shows, where the API server asks it.
    webhook: Option<Identity>,
    operator: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Story {
    /// Begins on a cluster of three nodes with KubeVirt, CDI and Multus.
    pub(crate) async fn begin() -> Self {
        let mut story = Self::without_operator().await;
        story.start_operator();
        story
    }

    /// Begins before the operator does.
    pub(crate) async fn without_operator() -> Self {
        Self::on(Ground::begin().await).await
    }

    /// Begins on a cluster that is set up otherwise.
    pub(crate) async fn begin_with(change: impl FnOnce(&mut Setup)) -> Self {
        let mut story = Self::set_up(change).await;
        story.start_operator();
        story
    }

    /// Begins before the operator does, on a cluster that is set up otherwise.
    pub(crate) async fn set_up(change: impl FnOnce(&mut Setup)) -> Self {
        let ground = Ground::bare(change).await;
        ground.grant().await;
        Self::on(ground).await
    }

    /// Begins on a cluster whose API server asks the operator about changes.
    pub(crate) async fn with_webhook() -> Self {
        let mut story = Self::set_up(|_| {}).await;
        story.configure_webhook().await;
        story.start_operator();
        story.until_operator_is_ready().await;
        story
    }

    /// Waits until the operator knows what there is, and its webhook can be reached.
    pub(crate) async fn until_operator_is_ready(&self) {
        let ready = async {
            while !self.health.ready().to_string().contains("[+]caches") {
                sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = timeout(self.ground.patience(), ready).await;
        assert!(waited.is_ok(), "{}", self.health.ready());
        self.wait(1).await;
    }

    /// Begins before the operator does, on a cluster for many Machines: KubeVirt's kinds have no
    /// schema, which is what most of the time goes into, and there is a class without disks.
    pub(crate) async fn for_many() -> Self {
        let story = Self::set_up(|setup| {
            setup.without = [Component::KubeVirt, Component::Cdi, Component::Multus].into();
            let kinds = ["VirtualMachine", "VirtualMachineInstance"];
            setup.definitions.extend(kinds.map(kinds::without_schema));
        })
        .await;
        story
            .give(json!({
                "apiVersion": api::API_VERSION, "kind": "MachineClass",
                "metadata": { "name": "diskless" },
                "spec": { "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" } },
            }))
            .await;
        story
    }

    /// Creates a Machine of the class without disks, which does not run.
    pub(crate) async fn idle_machine(&self, name: &str) {
        let spec = json!({
            "machineClass": "diskless", "bootOrder": ["network"], "powerState": "Stopped",
        });
        self.machine(name, spec).await;
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
        let waited = timeout(self.ground.patience(), waiting).await;
        assert!(waited.is_ok(), "not all Machines became {phase}");
    }

    async fn on(ground: Ground) -> Self {
        let namespace = ground.namespace().await;
        Self {
            client: ground.client(),
            calls: Arc::default(),
            line: Line::new(),
            ground,
            namespace,
            metrics: Metrics::new("test"),
            health: Health::new(),
            webhook: None,
            operator: None,
        }
    }

    /// The sandbox's API server.
    pub(crate) fn server(&self) -> &ApiServer {
        self.ground.server()
    }

    /// Starts the operator, with its own rights.
    pub(crate) fn start_operator(&mut self) {
        self.start_operator_with(|_| {});
    }

    /// Starts the operator with other options.
    pub(crate) fn start_operator_with(&mut self, change: impl FnOnce(&mut Options)) {
        self.start_operator_as(|operator| change(&mut operator.options));
    }

    /// Starts an operator that is set up otherwise.
    pub(crate) fn start_operator_as(&mut self, change: impl FnOnce(&mut Operator)) {
        let client = inspect::without_null(layered(
            self.line.over(self.ground.transport()),
            Fence::open(),
            Limits::UNLIMITED,
            Arc::clone(&self.calls) as _,
        ));
        let mut operator = Operator::alone(client, self.options(), self.ground.clock());
        change(&mut operator);
        self.metrics = operator.metrics.clone();
        self.health = operator.health.clone();
        if let Some(identity) = &self.webhook {
            let handler = operator.webhook().handler();
            self.ground.answer_at(WEBHOOK, identity.clone(), handler);
        }
        let token = CancellationToken::new();
        let running = tokio::spawn(operator.run(token.clone()));
        self.operator = Some((token, running));
    }

    /// The value of a series that the operator shows, such as `queue_depth`.
    pub(crate) fn figure(&self, series: &str) -> Option<f64> {
        let exposed = self.metrics.expose();
        let prefix = format!("kubevirt_operator_{series} ");
        let value = exposed.lines().find_map(|line| line.strip_prefix(&prefix));
        value.map(|value| value.parse().unwrap())
    }

    /// How the operator goes about its work. On a cluster that stories share it keeps to the
    /// namespace of this one.
    pub(crate) fn options(&self) -> Options {
        let namespaces = if self.ground.is_shared() {
            vec![self.namespace.clone()]
        } else {
            Vec::new()
        };
        Options {
            namespaces,
            // The examples copy disks from there.
            clone_source_namespaces: ["golden-images".to_owned()].into(),
            reconcile_interval: Duration::from_secs(30),
            concurrency: 5,
            watch_secrets: true,
            key_secret: None,
            seed: 1,
        }
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
        apply(&self.client, &self.namespace, yaml).await;
    }

    /// Lets the operator have disks copied from a namespace, which is created if there is none.
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

    /// Creates an object, in the namespace unless its kind has none.
    pub(crate) async fn create(&self, kind: &str, mut object: Value) -> Value {
        let resource = kinds::resource(kind);
        object["apiVersion"] = resource.api_version.into();
        object["kind"] = kind.into();
        let object = serde_json::from_value(object).unwrap();
        let created = self.api(kind).create(&PostParams::default(), &object).await;
        serde_json::to_value(created.unwrap()).unwrap()
    }

    /// Creates a Machine, and expects the API server to take it.
    pub(crate) async fn machine(&self, name: &str, spec: Value) {
        let machine = json!({ "metadata": { "name": name }, "spec": spec });
        self.create("Machine", machine).await;
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

    /// Changes the spec of a Machine by a merge patch.
    pub(crate) async fn change(&self, machine: &str, spec: Value) {
        self.patch("Machine", machine, json!({ "spec": spec }))
            .await;
    }

    /// Creates an object, or changes it, as an administrator.
    pub(crate) async fn give(&self, object: Value) {
        give(&self.client, &self.namespace, object).await;
    }

    /// Deletes an object, as `kubectl delete --wait=false` does.
    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.delete_with(kind, name, DeleteParams::background())
            .await;
    }

    /// Deletes an object in some other way.
    pub(crate) async fn delete_with(&self, kind: &str, name: &str, params: DeleteParams) {
        let api = self.api(kind);
        api.delete(name, &params).await.unwrap();
    }

    /// Calls KubeVirt about a VirtualMachine, as virtctl does.
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
                // The VirtualMachine changed meanwhile: a person tries again.
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    sleep(Duration::from_millis(50)).await;
                }
                answer => return drop(answer.unwrap()),
            }
        }
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

    /// Records from now on what happens to objects of these kinds.
    pub(crate) async fn record(&self, kinds: &[&'static str]) -> Record {
        let record = Record::default();
        for kind in kinds {
            record.begin(kind, self.api(kind)).await;
        }
        record
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

    /// Waits until the operator sends a request, by verb and resource. Forgets those before.
    pub(crate) async fn until_called(&self, verb: &str, resource: &str) {
        let is_it = |(called, of, _): &(&str, String, _)| *called == verb && of == resource;
        let called = async {
            while !self.calls.take().keys().any(is_it) {
                sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = timeout(self.ground.patience(), called).await;
        assert!(waited.is_ok(), "the operator does not {verb} {resource}");
    }

    /// Follows an object until it is as it should be.
    async fn follow(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        is_so: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        match objects::follow(&self.api(kind), name, self.ground.patience(), is_so).await {
            Ok(found) => found,
            Err(last) => panic!(
                "{kind} {name} did not {what}: {last}\n{}",
                self.told().await
            ),
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

    /// Waits until a Machine is ready or not for a reason.
    pub(crate) async fn until_reason(&self, name: &str, reason: &str) -> Value {
        self.until("Machine", name, |machine| {
            condition(machine, "Ready")["reason"] == reason
        })
        .await
    }

    /// Lets time pass: so many seconds, or a few where they are real.
    pub(crate) async fn wait(&self, seconds: u64) {
        self.ground.wait(seconds).await;
    }

    /// Lets so much time pass that nothing is tried any more unless something happens: an hour, or
    /// a few seconds where they are real.
    pub(crate) async fn wait_long(&self) {
        self.wait(3600).await;
    }

    /// Waits until so many writes of the operator have reached the API server.
    pub(crate) async fn until_writes(&self, count: u32) {
        let patience = self.ground.patience();
        let waited = timeout(patience, self.line.until_writes(count)).await;
        assert!(
            waited.is_ok(),
            "the operator made {} of {count} writes in {patience:?}\n{}",
            self.line.writes(),
            self.told().await
        );
    }

    /// What people are told of a Machine: reason and message of its Events, in order.
    pub(crate) async fn events(&self, machine: &str) -> Vec<(String, String)> {
        let mut events = self.list("Event").await;
        events.retain(|event| {
            event["involvedObject"]["kind"] == "Machine"
                && event["involvedObject"]["name"] == machine
        });
        events.sort_by_key(crate::record::version);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events
            .iter()
            .map(|event| (text(&event["reason"]), text(&event["message"])))
            .collect()
    }

    /// The reasons of a Machine's Events, in the order in which they were first given, once the
    /// operator has nothing more to say.
    pub(crate) async fn reasons(&self, machine: &str) -> Vec<String> {
        sleep(self.event_delay()).await;
        let events = self.events(machine).await;
        events.into_iter().map(|(reason, _)| reason).collect()
    }

    /// Whether an Event of a Machine has this reason, now or soon: Events are written after the status.
    pub(crate) async fn was_told(&self, machine: &str, reason: &str) -> bool {
        let written = async {
            while !self
                .events(machine)
                .await
                .iter()
                .any(|(found, _)| found == reason)
            {
                sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(self.event_delay(), written).await.is_ok()
    }

    /// How long after the status an Event may be written.
    fn event_delay(&self) -> Duration {
        Duration::from_secs(if self.ground.is_real() { 5 } else { 2 })
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

    /// Brings something that the cluster was set up without.
    pub(crate) async fn install(&self, component: Component) {
        self.ground.install(component).await;
    }

    /// Lets the API server ask the operator's webhook, as config/webhook does.
    async fn configure_webhook(&mut self) {
        let trust = Trust::of(WEBHOOK, self.ground.clock()());
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

    /// All that was told of Machines, for when a story fails.
    async fn told(&self) -> String {
        let mut told = String::new();
        for machine in self.list("Machine").await {
            let name = machine["metadata"]["name"].as_str().unwrap_or_default();
            for (reason, message) in self.events(name).await {
                let _ = writeln!(told, "{name}: {reason}: {message}");
            }
        }
        told
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource = kinds::resource(kind);
        if kinds::is_of_the_cluster(kind) {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        }
    }
}

impl Drop for Story {
    /// On a cluster that stays, what was made goes.
    fn drop(&mut self) {
        let Ground::Real(cluster) = &self.ground else {
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
        cluster.at_the_end(async move {
            let (now, all) = (DeleteParams::default(), ListParams::default());
            let emptied = async {
                let _ = machines.delete_collection(&now, &all).await;
                while machines
                    .list(&all)
                    .await
                    .is_ok_and(|list| !list.items.is_empty())
                {
                    sleep(Duration::from_millis(100)).await;
                }
            };
            // A story that failed may leave something behind; it was told.
            let _ = timeout(Duration::from_secs(20), emptied).await;
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
        give(client, namespace, object).await;
    }
}

async fn give(client: &Client, namespace: &str, mut object: Value) {
    let kind = object["kind"].as_str().unwrap_or_default();
    if !kinds::is_of_the_cluster(kind) && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = namespace.into();
    }
    sandbox::apply(client, object).await.unwrap();
}
