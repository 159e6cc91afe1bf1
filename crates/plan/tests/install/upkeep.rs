//! Renewal of certificates while a rollout is stuck.

use api::kubevirt::install::KubeVirtSpec;
use k8s_openapi::jiff::SignedDuration;
use plan::kubevirt::{Id, Stage};
use serde_json::{Value, json};

use crate::{
    behaviours::{installed, vm},
    release::{NEW, OLD},
    world::{World, time},
};

/// Asserts that a leaf certificate is renewed within a day while a stage is stuck.
#[track_caller]
fn assert_renews(mut world: World, stage: Stage) {
    for _ in 0..10 {
        world.round();
    }
    world.journal.clear();
    for _ in 0..26 {
        let now = world.now;
        for (_, refused) in world.memory.refusals.iter_mut() {
            refused.retry_at = time(now + SignedDuration::from_secs(60));
        }
        world.round();
        world.advance_time(3600);
    }
    assert_eq!(world.plan().stage, stage, "{:#?}", world.plan());
    assert!(
        world.index_of("issue kubevirt-virt-api-certs").is_some(),
        "{:#?}",
        world.plan()
    );
}

fn set(world: &mut World, field: &str, value: Value) {
    let mut spec = serde_json::to_value(&world.kubevirt.spec).unwrap();
    spec[field] = value;
    let spec: KubeVirtSpec = serde_json::from_value(spec).unwrap();
    world.kubevirt.spec = spec;
    world.increment_generation();
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
fn while_a_customization_is_invalid() {
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
fn while_the_requested_version_is_invalid() {
    let mut world = installed(NEW, 1);
    set(&mut world, "imageTag", json!("no version"));
    assert_renews(world, Stage::Rendering);
}

#[test]
fn while_an_update_is_refused() {
    let mut world = installed(OLD, 1);
    world.request(NEW);
    refuse_role(&mut world);
    assert_renews(world, Stage::Rbac);
}

#[test]
fn while_another_setting_is_refused() {
    let mut world = installed(NEW, 1);
    world.increment_generation();
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
fn a_first_installation_issues_no_certificate_before_its_stage() {
    let mut world = World::new(NEW, 1);
    refuse_role(&mut world);
    for _ in 0..20 {
        world.round();
    }
    assert_eq!(world.index_of("issue"), None);
}
