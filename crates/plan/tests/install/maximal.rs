//! Live objects and KubeVirt resources with the maximum size that an API server stores (1.5 MB): twice the
//! size costs a little over twice the allocations, and reports are bounded.

use std::{sync::mpsc, thread, time::Duration};

use rstest::rstest;
use serde_json::{Value, json};

use crate::{behaviours::installed, release::NEW, world::World};

/// Maximum size of an object in etcd.
const LARGEST: usize = 1_500_000;
/// Detects a hang: near-linear work takes a fraction of a second.
const HANG: Duration = Duration::from_secs(60);
/// Maximum size of the Events and reasons of a plan.
const MAX_REPORT_BYTES: usize = 128 * 1024;

/// As many items as fit into an object, or a share of them.
fn items(share: usize, item: impl Fn(usize) -> Value) -> Vec<Value> {
    let size = item(100_000).to_string().len() + 1;
    (0..LARGEST / size / share).map(item).collect()
}

fn change(world: &mut World, kind: &str, name: &str, pointer: &str, more: Vec<Value>) {
    let id = world.id(kind, name);
    world.change(&id, |live| match live.pointer_mut(pointer) {
        Some(Value::Array(list)) => list.extend(more),
        found => panic!("{found:?}"),
    });
}

fn variables(world: &mut World, share: usize) {
    let more = items(
        share,
        |at| json!({ "name": format!("A{at}"), "value": "a" }),
    );
    let id = world.id("Deployment", "virt-api");
    world.change(&id, |live| {
        let container = "/spec/template/spec/containers/0";
        live.pointer_mut(container).unwrap()["env"] = more.into();
    });
}

fn rules(world: &mut World, share: usize) {
    let rule = |at| json!({ "apiGroups": [""], "resources": [format!("r{at}")], "verbs": ["get"] });
    let more = items(share, rule);
    change(world, "ClusterRole", "kubevirt-components", "/rules", more);
}

fn subjects(world: &mut World, share: usize) {
    let subject = |at| json!({ "kind": "ServiceAccount", "name": format!("a{at}") });
    let more = items(share, subject);
    let name = "kubevirt-components";
    change(world, "ClusterRoleBinding", name, "/subjects", more);
}

fn ports(world: &mut World, share: usize) {
    let more = items(share, |at| json!({ "name": format!("p{at}"), "port": at }));
    change(world, "Service", "virt-api", "/spec/ports", more);
}

fn metadata(world: &mut World, share: usize) {
    let id = world.id("DaemonSet", "virt-handler");
    let names = items(share * 2, |at| format!("example.com/a{at}").into());
    world.change(&id, |live| {
        for name in names.iter().filter_map(Value::as_str) {
            live["metadata"]["labels"][name] = "a".into();
            live["metadata"]["annotations"][name] = "a".into();
        }
        live["metadata"]["finalizers"] = names.into();
    });
}

fn conditions(world: &mut World, share: usize) {
    let condition = |at| json!({ "type": format!("T{at}"), "status": "False", "message": "no" });
    let id = world.id("Deployment", "virt-controller");
    let more: Value = items(share, condition).into();
    world.change(&id, |live| live["status"]["conditions"] = more);
}

#[rstest]
#[case(variables)]
#[case(rules)]
#[case(subjects)]
#[case(ports)]
#[case(metadata)]
#[case(conditions)]
fn an_installation_with_a_maximal_object_is_planned_in_near_linear_work(
    #[case] make: fn(&mut World, usize),
) {
    let measured = move |share: usize| {
        let mut world = installed(NEW, 1);
        make(&mut world, share);
        let mut report = String::new();
        let counted = allocation_counter::measure(|| {
            let plan = world.plan();
            let steps = plan.steps.iter().map(|step| (&step.reason, &step.event));
            report = format!("{:?} {:?}", steps.collect::<Vec<_>>(), plan.events);
        });
        (counted.count_total, report)
    };
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send((measured(2), measured(1))));
    let Ok(((half, _), (whole, report))) = receiver.recv_timeout(HANG) else {
        panic!("planning is not near-linear: no answer in {HANG:?}");
    };
    assert!(
        whole <= half * 22 / 10 + 1000,
        "{half} allocations for one half, {whole} for the whole"
    );
    assert!(
        report.len() <= MAX_REPORT_BYTES,
        "{} bytes are reported",
        report.len()
    );
}
