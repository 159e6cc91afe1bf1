//! Detection of data loss.

#![allow(
    clippy::needless_pass_by_value,
    reason = "cases read best as plain json! values"
)]

use std::sync::Arc;

use api::{Machine, Time, cdi::ObservedDataVolume, core::StorageClass};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::machine::{CloudInitSecret, Installed, Kind, Known, Plan, Surroundings, plan};

const RECORDED: &str = "ca750608-b9bc-4cfc-8e92-9e233ce0235b";
const OTHER: &str = "00000000-b9bc-4cfc-8e92-9e233ce0235b";

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn machine(annotations: Value) -> Machine {
    let disk = json!({"name": "data", "pvcName": "web-data", "uuid": RECORDED, "size": 1});
    object(json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "m1", "annotations": annotations,
            "finalizers": [labels::FINALIZER],
        },
        "spec": {"template": "small", "disks": [{"name": "data", "size": "5Gi"}]},
        "status": {"phase": "Running", "disks": [disk]},
    }))
}

fn claim(uid: &str, phase: &str, is_terminating: bool) -> ObservedClaim {
    object(json!({
        "metadata": {
            "name": "web-data", "namespace": "shop", "uid": uid,
            "annotations": {labels::MACHINE_UID: "m1"},
            "labels": {labels::MACHINE: "web", labels::MANAGED_BY: labels::MANAGER},
            "deletionTimestamp": is_terminating.then_some("2026-01-01T00:00:00Z"),
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                 "resources": {"requests": {"storage": "5Gi"}}},
        "status": {"phase": phase, "capacity": {"storage": "6Gi"}},
    }))
}

fn planned(machine: &Machine, claim: Option<&ObservedClaim>, lost_claims: Vec<&str>) -> Plan {
    planned_with(machine, claim, lost_claims, None)
}

fn planned_with(
    machine: &Machine,
    claim: Option<&ObservedClaim>,
    lost_claims: Vec<&str>,
    volume: Option<&ObservedDataVolume>,
) -> Plan {
    let class: StorageClass = object(json!({"metadata": {"name": "fast", "annotations":
        {"storageclass.kubernetes.io/is-default-class": "true"}}}));
    let observed = Observed {
        machine,
        surroundings: Surroundings {
            storage_classes: Known::all([("fast".to_owned(), Arc::new(class))]),
            machine_classes: Known::all([]),
            ..Surroundings::default()
        },
        installed: Installed {
            kubevirt: true,
            kubevirt_is_removed: false,
            cdi: true,
            multus: true,
        },
        virtual_machine: None,
        instance: None,
        claims: claim.into_iter().collect(),
        data_volumes: volume.into_iter().collect(),
        cloud_init_secret: CloudInitSecret::Unobserved { is_verified: true },
        digest_key: None,
        mac_address_rivals: Vec::new(),
        attachments: Vec::new(),
        ledger: None,
        references: None,
        lost_claims,
        unconfirmed_disks: Vec::new(),
        orphaned: false,
        refusal: None,
    };
    plan(&observed, &Time("2026-01-01T00:00:00Z".parse().unwrap()))
}

fn creates(plan: &Plan, kind: Kind, name: &str) -> bool {
    plan.steps.iter().any(|step| {
        matches!(&step.action, Action::Create(object)
            if object.kind() == kind && object.name() == name)
    })
}

fn is_lost(plan: &Plan) -> bool {
    let mut obstacles = plan.obstacles.iter();
    obstacles.any(|it| it.error_type == Some(ErrorType::DataLost))
}

fn records(plan: &Plan) -> Vec<&str> {
    let disks = plan.status.disks.iter().flatten();
    disks.map(|disk| disk.uuid.as_str()).collect()
}

#[rstest]
#[case::deleted(None)]
#[case::replaced(Some(claim(OTHER, "Bound", false)))]
#[case::without_volume(Some(claim(RECORDED, "Lost", false)))]
#[case::being_deleted(Some(claim(RECORDED, "Bound", true)))]
fn nothing_takes_the_place_of_lost_data(#[case] claim: Option<ObservedClaim>) {
    let unconfirmed = [
        json!({}),
        json!({labels::RECREATE_DISK: OTHER}),
        json!({labels::RECREATE_DISK: "true"}),
    ];
    for annotations in unconfirmed {
        let plan = planned(&machine(annotations), claim.as_ref(), vec![RECORDED]);
        assert!(is_lost(&plan), "{:?}", plan.obstacles);
        assert!(!creates(&plan, Kind::PersistentVolumeClaim, "web-data"));
        assert!(!creates(&plan, Kind::VirtualMachine, "web"));
        assert_eq!(records(&plan), [RECORDED]);
    }
}

#[test]
fn a_claim_that_is_not_in_the_cache_is_read_before_anything_is_created() {
    let plan = planned(&machine(json!({})), None, Vec::new());
    assert!(!is_lost(&plan));
    let reads = plan
        .steps
        .iter()
        .filter(|step| matches!(&step.action, Action::RecoverClaim { uid, .. } if uid == RECORDED));
    assert_eq!(reads.count(), 1);
    assert!(!creates(&plan, Kind::PersistentVolumeClaim, "web-data"));
    assert!(!creates(&plan, Kind::VirtualMachine, "web"));
}

#[rstest]
#[case(RECORDED.to_owned())]
#[case(format!("{OTHER}, {RECORDED}"))]
fn a_loss_that_is_confirmed_brings_a_new_disk(#[case] confirmed: String) {
    let machine = machine(json!({labels::RECREATE_DISK: confirmed}));
    for lost in [vec![], vec![RECORDED]] {
        let plan = planned(&machine, None, lost);
        assert!(!is_lost(&plan));
        assert!(creates(&plan, Kind::PersistentVolumeClaim, "web-data"));
    }
    let new = claim(OTHER, "Pending", false);
    assert!(records(&planned(&machine, Some(&new), vec![])).is_empty());
    let new = claim(OTHER, "Bound", false);
    let plan = planned(&machine, Some(&new), vec![]);
    assert!(!is_lost(&plan));
    assert_eq!(records(&plan), [OTHER]);
}

#[test]
fn a_restored_claim_is_used_when_disks_are_to_be_adopted() {
    let machine = machine(json!({labels::ADOPT_DISKS: "true"}));
    let restored = claim(OTHER, "Bound", false);
    let plan = planned(&machine, Some(&restored), vec![]);
    assert!(!is_lost(&plan));
    assert_eq!(records(&plan), [OTHER]);
    // Without a disk to adopt, the data is still lost.
    let plan = planned(&machine, None, vec![RECORDED]);
    assert!(is_lost(&plan));
}

#[test]
fn a_bound_claim_is_recorded_with_its_size() {
    let mut machine = machine(json!({}));
    machine.status.as_mut().unwrap().disks = None;
    let own = claim(RECORDED, "Bound", false);
    let plan = planned(&machine, Some(&own), vec![]);
    let expected = DiskStatus {
        name: "data".to_owned(),
        pvc_name: "web-data".to_owned(),
        uuid: RECORDED.to_owned(),
        size: Some(6 << 30),
        device: None,
    };
    assert_eq!(plan.status.disks, Some(vec![expected]));
    for phase in ["Pending", ""] {
        let unbound = claim(RECORDED, phase, false);
        assert_eq!(planned(&machine, Some(&unbound), vec![]).status.disks, None);
    }
}

#[test]
fn a_recorded_claim_that_grew_is_recorded_with_its_new_size() {
    let own = claim(RECORDED, "Bound", false);
    let plan = planned(&machine(json!({})), Some(&own), vec![]);
    let disks = plan.status.disks.unwrap();
    assert_eq!(disks[0].size, Some(6 << 30));
}

#[test]
fn the_message_about_lost_data_has_the_annotation_that_confirms_it() {
    let plan = planned(&machine(json!({})), None, vec![RECORDED]);
    let messages: Vec<_> = plan.obstacles.iter().map(|it| &it.message).collect();
    let confirm = format!("{}: {RECORDED:?}", labels::RECREATE_DISK);
    assert!(messages[0].contains(&confirm), "{messages:?}");
}

#[rstest]
#[case::filled_by_it("v1", "Succeeded", true)]
#[case::being_filled_by_it("v1", "ImportInProgress", false)]
#[case::not_filled_by_it("v2", "Pending", true)]
fn only_the_data_volume_that_owns_a_claim_decides_whether_it_is_filled(
    #[case] uid: &str,
    #[case] phase: &str,
    #[case] is_recorded: bool,
) {
    let mut machine = machine(json!({}));
    machine.status = None;
    let mut claim = claim(RECORDED, "Bound", false);
    claim.metadata.owner_references = object(json!([{
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "web-data",
        "uid": "v1", "controller": true,
    }]));
    let volume: ObservedDataVolume = object(json!({
        "metadata": {"name": "web-data", "namespace": "shop", "uid": uid},
        "status": {"phase": phase},
    }));
    let plan = planned_with(&machine, Some(&claim), Vec::new(), Some(&volume));
    assert_eq!(records(&plan).contains(&RECORDED), is_recorded);
}
