//! Comparison of the KubeVirt actors with a VM's life recorded from KubeVirt v1.9.0.
//!
//! The recording is not part of the repository: `KUBEVIRT_OPERATOR_DATA` names the directory that
//! contains `kubevirt/transcripts`.
//!
//! The recording has a real virt-api and virt-controller, with kubelet and virt-handler simulated by
//! hand. The test does the same: it runs the controllers of this crate and simulates the node with the
//! recorded values. They must write exactly the recorded states of the VM and its VMIs, in that order.
//!
//! Tolerated, because two real runs differ in it:
//! - the order of VM events relative to VMI events: watches of two kinds are not ordered;
//! - UIDs, times, resource versions and generations;
//! - the order of conditions, and events that change only that: virt-controller removes some conditions
//!   and adds them again;
//! - the order in which the two finalizers of a VMI are removed (the launcher image goes with one of
//!   them), and whether `activePods` is set before the pod has a node: the recording has both variants;
//! - `retryAfterTimestamp`, which has jitter: its range is checked instead.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::PathBuf,
};

use actors::{
    Actor, Caches, Context, Key, Kind, Speed, Waits, Write,
    faults::Faults,
    kind::{CLAIM, CONTROLLER_REVISION, POD},
    kubevirt::{VM, VMI, VmController, VmiController, default_vm},
    object::{annotation, is_deleted, list, merge, name, number, text, time, uid},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

struct Recorded {
    at: f64,
    of_type: String,
    object: Value,
}

fn recording() -> Vec<Recorded> {
    let data = env::var_os("KUBEVIRT_OPERATOR_DATA").map(PathBuf::from);
    let data = data.expect("KUBEVIRT_OPERATOR_DATA names the folder with the recording");
    let file = data.join("kubevirt/transcripts/vm-lifecycle-v1.9.0.jsonl");
    let lines =
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let events = lines.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        Recorded {
            at: event["t"].as_f64().unwrap(),
            of_type: event["type"].as_str().unwrap().to_owned(),
            object: event["object"].clone(),
        }
    });
    events.collect()
}

/// The recorded object of a kind at a time.
fn at(recording: &[Recorded], kind: Kind, at: f64) -> &Value {
    let event = recording
        .iter()
        .filter(|event| event.object["kind"] == kind.kind)
        .find(|event| (event.at - at).abs() < 0.005)
        .unwrap_or_else(|| panic!("no {} at {at}", kind.kind));
    &event.object
}

/// A few objects, the controllers under test, and a simulated node.
struct World {
    objects: BTreeMap<(Kind, Key), Value>,
    written: Vec<(Kind, Value)>,
    now: Timestamp,
    version: u64,
    /// Whether deleted pods are observed while they terminate.
    pods_linger: bool,
}

impl World {
    fn settle(&mut self) {
        let key = Key::new("default", "x");
        for _ in 0..200 {
            let written = self.reconcile(&VmController, &key)
                || self.run_pods()
                || self.reconcile(&VmiController, &key)
                || self.end_pods();
            if !written {
                return;
            }
        }
        panic!("the controllers do not settle");
    }

    fn reconcile(&mut self, actor: &dyn Actor, key: &Key) -> bool {
        let caches = Caches::of(
            self.objects
                .iter()
                .map(|((kind, _), object)| (*kind, object.clone())),
        );
        let (faults, waits) = (Faults::default(), Waits::new());
        let mut ctx = Context::new(key, &caches, self.now, Speed::Real, &faults, 0, &waits);
        actor.reconcile(&mut ctx);
        let mut written = false;
        for write in ctx.finish().writes {
            written |= self.apply(write);
        }
        written
    }

    fn apply(&mut self, write: Write) -> bool {
        match write {
            Write::Create { kind, mut object } => {
                if self.objects.contains_key(&(kind, Key::of(&object))) {
                    return false;
                }
                object["apiVersion"] = kind.api_version().into();
                object["kind"] = kind.kind.into();
                object["metadata"]["uid"] = format!("uid-{}", self.version).into();
                object["metadata"]["creationTimestamp"] = self.now.to_string().into();
                object["metadata"]["generation"] = 1.into();
                self.store(kind, object);
                true
            }
            Write::Patch {
                kind,
                observed,
                subresource,
                patch,
            } => {
                assert_eq!(
                    subresource.is_some(),
                    kind == VM && patch.get("status").is_some()
                );
                self.patch(kind, &observed, &patch)
            }
            Write::Delete { kind, observed, .. } => self.delete(kind, &observed),
            Write::Event { .. } => false,
            Write::Bind { .. } => panic!("virt-controller binds no pods"),
        }
    }

    fn patch(&mut self, kind: Kind, observed: &Value, patch: &Value) -> bool {
        let Some(old) = self.objects.get(&(kind, Key::of(observed))).cloned() else {
            panic!("patched {} {} is not there", kind.kind, name(observed));
        };
        assert_eq!(
            text(&old, "/metadata/resourceVersion"),
            text(observed, "/metadata/resourceVersion"),
            "{} was written twice in one reconcile",
            kind.kind
        );
        let mut object = old.clone();
        merge(&mut object, patch);
        if object == old {
            return false;
        }
        let counts = kind == VMI || object["spec"] != old["spec"];
        if counts {
            let generation = number(&old, "/metadata/generation").unwrap_or_default();
            object["metadata"]["generation"] = (generation + 1).into();
        }
        self.store(kind, object);
        true
    }

    fn delete(&mut self, kind: Kind, observed: &Value) -> bool {
        let Some(mut object) = self.objects.get(&(kind, Key::of(observed))).cloned() else {
            return false;
        };
        if is_deleted(&object) {
            return false;
        }
        let lingers = kind == POD || !list(&object, "/metadata/finalizers").is_empty();
        if kind == POD && !self.pods_linger || !lingers {
            self.objects.remove(&(kind, Key::of(observed)));
            return true;
        }
        object["metadata"]["deletionTimestamp"] = self.now.to_string().into();
        object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        let generation = number(&object, "/metadata/generation").unwrap_or_default();
        object["metadata"]["generation"] = (generation + 1).into();
        self.store(kind, object);
        true
    }

    fn store(&mut self, kind: Kind, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let key = (kind, Key::of(&object));
        let ends =
            is_deleted(&object) && list(&object, "/metadata/finalizers").is_empty() && kind != POD;
        if ends {
            self.objects.remove(&key);
            return;
        }
        self.written.push((kind, object.clone()));
        self.objects.insert(key, object);
    }

    fn get(&self, kind: Kind, name: &str) -> &Value {
        &self.objects[&(kind, Key::new("default", name))]
    }

    fn edit(&mut self, kind: Kind, name: &str, patch: &Value) {
        let observed = self.get(kind, name).clone();
        assert!(self.patch(kind, &observed, patch));
        self.settle();
    }

    /// Makes pods ready as soon as their VMI is Scheduling.
    fn run_pods(&mut self) -> bool {
        let scheduling = self
            .objects
            .iter()
            .any(|((kind, _), vmi)| *kind == VMI && text(vmi, "/status/phase") == "Scheduling");
        let pod = self
            .pods()
            .find(|pod| text(pod, "/spec/nodeName").is_empty());
        let Some(pod) = pod.filter(|_| scheduling).cloned() else {
            return false;
        };
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let patch = json!({
            "spec": { "nodeName": "fake-node-1" },
            "status": { "qosClass": "Burstable", "phase": "Running", "conditions": ready },
        });
        self.patch(POD, &pod, &patch)
    }

    /// Removes deleted pods once nothing else changes.
    fn end_pods(&mut self) -> bool {
        let pod = self.pods().find(|pod| is_deleted(pod)).map(Key::of);
        pod.is_some_and(|pod| self.objects.remove(&(POD, pod)).is_some())
    }

    fn pods(&self) -> impl Iterator<Item = &Value> {
        let pods = self.objects.iter().filter(|((kind, _), _)| *kind == POD);
        pods.map(|(_, pod)| pod)
    }
}

/// A state without the fields that may differ between runs.
fn normalised(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "ownerReferences",
    ] {
        metadata.remove(field);
    }
    let one_left = list(&object, "/metadata/finalizers").len() == 1;
    if object["kind"] == VMI.kind && one_left {
        object["metadata"]["finalizers"] = json!(["one of the two"]);
        let status = object["status"].as_object_mut().unwrap();
        status.remove("launcherContainerImageVersion");
    }
    if let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        if annotations.is_empty() {
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("annotations");
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        if let Some(failure) = status
            .get_mut("startFailure")
            .and_then(Value::as_object_mut)
        {
            failure.remove("lastFailedVMIUID");
            failure.remove("retryAfterTimestamp");
        }
        if let Some(pods) = status.remove("activePods") {
            let nodes: BTreeSet<&str> = pods
                .as_object()
                .unwrap()
                .values()
                .filter_map(Value::as_str)
                .collect();
            if nodes.iter().any(|node| !node.is_empty()) {
                status.insert("activePods".to_owned(), json!(nodes));
            }
        }
        if let Some(transitions) = status
            .get_mut("phaseTransitionTimestamps")
            .and_then(Value::as_array_mut)
        {
            for transition in transitions {
                transition
                    .as_object_mut()
                    .unwrap()
                    .remove("phaseTransitionTimestamp");
            }
        }
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            for condition in conditions.iter_mut() {
                let condition = condition.as_object_mut().unwrap();
                condition.remove("lastProbeTime");
                condition.remove("lastTransitionTime");
            }
            conditions.sort_by_key(|condition| condition["type"].as_str().unwrap().to_owned());
        }
    }
    object
}

fn states<'a>(kind: Kind, events: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut states: Vec<Value> = Vec::new();
    for object in events.filter(|object| object["kind"] == kind.kind) {
        let state = normalised(object);
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    states
}

/// Replays the recorded sequence and returns the states that were written.
fn play(recording: &[Recorded]) -> Vec<(Kind, Value)> {
    let mut vm = at(recording, VM, 5.36).clone();
    vm["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let mut world = World {
        objects: BTreeMap::new(),
        written: Vec::new(),
        now: time(&vm, "/metadata/creationTimestamp").unwrap(),
        version: 0,
        pods_linger: true,
    };
    let start = world.now;
    let wait = |world: &mut World, until: f64| {
        world.now = start + SignedDuration::from_secs_f64(until - 5.36);
    };
    world.store(VM, vm);
    world.settle();

    // The claim is created and bound within 40 ms; virt-controller observed it as one change.
    wait(&mut world, 11.52);
    let claim = recording
        .iter()
        .filter(|event| event.object["kind"] == CLAIM.kind)
        .nth(2)
        .unwrap();
    assert_eq!(claim.object["status"]["phase"], "Bound");
    world.store(CLAIM, claim.object.clone());
    world.settle();

    wait(&mut world, 21.95);
    let by_hand = |at: &Value| json!({ "status": { "phase": at["status"]["phase"], "interfaces": at["status"]["interfaces"], "conditions": at["status"]["conditions"] } });
    world.edit(VMI, "x", &by_hand(at(recording, VMI, 21.95)));

    wait(&mut world, 28.09);
    let memory = json!({ "memory": { "guest": "6Gi" } });
    world.edit(
        VM,
        "x",
        &json!({ "spec": { "template": { "spec": { "domain": memory } } } }),
    );

    wait(&mut world, 34.21);
    let cpu = json!({ "cpu": { "sockets": 2 } });
    world.edit(
        VM,
        "x",
        &json!({ "spec": { "template": { "spec": { "domain": cpu } } } }),
    );

    wait(&mut world, 40.34);
    world.edit(VM, "x", &json!({ "spec": { "runStrategy": "Halted" } }));

    wait(&mut world, 52.89);
    world.edit(VM, "x", &json!({ "spec": { "runStrategy": "Always" } }));

    wait(&mut world, 61.37);
    world.edit(VMI, "x", &by_hand(at(recording, VMI, 61.37)));

    // The recorded pod was deleted before virt-controller observed it again.
    wait(&mut world, 65.76);
    world.pods_linger = false;
    world.edit(VMI, "x", &by_hand(at(recording, VMI, 65.76)));
    assert_retry(&world, 1, 10, 15);

    world.pods_linger = true;
    world.now = time(
        world.get(VM, "x"),
        "/status/startFailure/retryAfterTimestamp",
    )
    .unwrap();
    world.settle();

    let vm = world.get(VM, "x").clone();
    world.delete(VM, &vm);
    world.settle();
    assert!(
        !world
            .objects
            .keys()
            .any(|(kind, _)| [VM, VMI, POD].contains(kind))
    );
    world.written
}

fn assert_retry(world: &World, failures: i64, from: i64, to: i64) {
    let vm = world.get(VM, "x");
    assert_eq!(
        number(vm, "/status/startFailure/consecutiveFailCount"),
        Some(failures)
    );
    let retry = time(vm, "/status/startFailure/retryAfterTimestamp").unwrap();
    let delay = retry.as_second() - world.now.as_second();
    assert!((from..=to).contains(&delay), "{delay}");
}

/// Fails with the fields that differ first.
fn compare(kind: Kind, actual: &[Value], expected: &[Value]) {
    for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let mut differences = Vec::new();
        differ(actual, expected, "", &mut differences);
        assert!(
            differences.is_empty(),
            "state {index} of the {}, actual and recorded:\n{}",
            kind.kind,
            differences.join("\n")
        );
    }
    let (actual, expected) = (actual.len(), expected.len());
    assert_eq!(actual, expected, "number of states of the {}", kind.kind);
}

fn differ(actual: &Value, expected: &Value, path: &str, found: &mut Vec<String>) {
    match (actual, expected) {
        (Value::Object(mine), Value::Object(other)) => {
            let keys: BTreeSet<&String> = mine.keys().chain(other.keys()).collect();
            for key in keys {
                differ(
                    &actual[key],
                    &expected[key],
                    &format!("{path}/{key}"),
                    found,
                );
            }
        }
        _ if actual != expected => found.push(format!("{path}: {actual} {expected}")),
        _ => {}
    }
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn the_states_of_a_vm_and_its_vmis_are_those_of_kubevirt() {
    let recording = recording();
    let written = play(&recording);
    for kind in [VM, VMI] {
        let actual = states(kind, written.iter().map(|(_, object)| object));
        let expected = states(
            kind,
            recording
                .iter()
                .filter(|event| event.of_type != "DELETED")
                .map(|event| &event.object),
        );
        assert!(expected.len() >= 20, "{}", expected.len());
        compare(kind, &actual, &expected);
    }
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn a_vm_is_filled_in_as_virt_api_does() {
    let recording = recording();
    let recorded = at(&recording, VM, 5.36);
    let applied = annotation(recorded, "kubectl.kubernetes.io/last-applied-configuration").unwrap();
    let mut vm: Value = serde_json::from_str(applied).unwrap();
    default_vm(&mut vm, None, 7);
    for field in ["uuid", "serial"] {
        let pointer = format!("/spec/template/spec/domain/firmware/{field}");
        assert_eq!(text(&vm, &pointer).len(), 36);
        *vm.pointer_mut(&pointer).unwrap() = recorded.pointer(&pointer).unwrap().clone();
    }
    assert_eq!(vm["spec"], recorded["spec"]);
}

#[test]
#[ignore = "needs KUBEVIRT_OPERATOR_DATA"]
fn a_start_is_kept_in_one_revision() {
    let recording = recording();
    let written = play(&recording);
    let revisions: Vec<&str> = written
        .iter()
        .filter(|(kind, _)| *kind == CONTROLLER_REVISION)
        .map(|(_, revision)| name(revision))
        .collect();
    let vm = uid(at(&recording, VM, 5.36));
    let expected = [1, 5].map(|generation| format!("revision-start-vm-{vm}-{generation}"));
    assert_eq!(revisions, expected);
}
