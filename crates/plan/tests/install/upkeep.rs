//! Certificates are renewed though something else is stuck.

use api::kubevirt::install::KubeVirtSpec;
use k8s_openapi::jiff::SignedDuration;
use plan::kubevirt::{Id, Stage};
use serde_json::{Value, json};

use crate::{
    behaviours::{installed, vm},
    release::{NEW, OLD},
    world::{World, time},
};

/// Whether the certificate that a CA has signed is renewed within a day, though a stage is stuck.
#[track_caller]
fn assert_renews(mut world: World, stage: Stage) {
    for _ in 0..10 {
        world.round();
    }
    world.journal.clear();
    for _ in 0..26 {
        for refused in world.memory.refusals.values_mut() {
            refused.retry_at = time(world.now + SignedDuration::from_secs(60));
        }
        world.round();
        world.pass(3600);
    }
    assert_eq!(world.plan().stage, stage, "{:#?}", world.plan());
    assert!(
        world.written("issue kubevirt-virt-api-certs").is_some(),
        "{:#?}",
        world.plan()
    );
}

fn set(world: &mut World, field: &str, value: Value) {
    let mut spec = serde_json::to_value(&world.kubevirt.spec).unwrap();
    spec[field] = value;
    let spec: KubeVirtSpec = serde_json::from_value(spec).unwrap();
    world.kubevirt.spec = spec;
    world.bump();
}

fn refuse_role(world: &mut World) {
    let role = Id::new(
        "rbac.authorization.k8s.io",
        "ClusterRole",
        "",
        "kubevirt-components",
    );
    world.refuse(&role, "not today");
}

#[test]
fn while_a_customization_makes_no_sense() {
    let mut world = installed(NEW, 1);
    let patch = json!({
        "resourceType": "Deployment", "resourceName": "virt-api", "type": "json",
        "patch": "[{\"op\": \"remove\", \"path\": \"/spec/nothing\"}]",
    });
    set(
        &mut world,
        "customizeComponents",
        json!({"patches": [patch]}),
    );
    assert_renews(world, Stage::Rendering);
}

#[test]
fn while_the_version_that_is_asked_for_is_none() {
    let mut world = installed(NEW, 1);
    set(&mut world, "imageTag", json!("no version"));
    assert_renews(world, Stage::Rendering);
}

#[test]
fn while_an_update_is_refused() {
    let mut world = installed(OLD, 1);
    world.ask_for(NEW);
    refuse_role(&mut world);
    assert_renews(world, Stage::Rbac);
}

#[test]
fn while_another_setting_is_refused() {
    let mut world = installed(NEW, 1);
    world.bump();
    refuse_role(&mut world);
    assert_renews(world, Stage::Rbac);
}

#[test]
fn while_virtual_machines_block_the_removal() {
    let mut world = installed(NEW, 1);
    world.kubevirt.spec.uninstall_strategy = Some("BlockUninstallIfWorkloadsExist".to_owned());
    let vms = "virtualmachines.kubevirt.io".to_owned();
    world.customs.insert(vms, vec![vm("default/web", false)]);
    world.delete_resource();
    assert_renews(world, Stage::Workloads);
}

#[test]
fn nothing_is_issued_before_its_turn_in_a_first_installation() {
    let mut world = World::new(NEW, 1);
    refuse_role(&mut world);
    for _ in 0..20 {
        world.round();
    }
    assert_eq!(world.written("issue"), None);
}
