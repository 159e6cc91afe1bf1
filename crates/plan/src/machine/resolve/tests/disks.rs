//! Disks.

use super::*;

#[test]
fn are_merged_by_name_over_those_of_the_size() {
    let machine = resolved(json!({"template": "medium", "disks": [
        {"name": "data", "size": "100Gi"},
        {"name": "root", "storageClass": "fast-ssd"},
    ]}));
    assert_eq!(
        disk_sizes(&machine),
        [("root", "40Gi".to_owned()), ("data", "100Gi".to_owned())]
    );
    assert_eq!(machine.disks[0].storage_class.as_deref(), Some("fast-ssd"));
}

#[test]
fn of_an_instance_type_are_additional() {
    let machine =
        resolved(json!({"instanceType": "medium", "disks": [{"name": "data", "size": "10Gi"}]}));
    assert_eq!(
        disk_sizes(&machine),
        [("root", "40Gi".to_owned()), ("data", "10Gi".to_owned())]
    );
}

#[test]
fn an_instance_type_has_no_root_disk_beside_one_marked_boot() {
    let machine = resolved(json!({"instanceType": "medium", "disks": [
        {"name": "data", "size": "10Gi"}, {"name": "system", "size": "9Gi", "boot": true}]}));
    assert_eq!(
        disk_sizes(&machine),
        [("data", "10Gi".to_owned()), ("system", "9Gi".to_owned())]
    );
    assert_eq!(machine.disks[1].boot_order, Some(1));
}

#[test]
fn a_template_keeps_its_root_disk_beside_one_marked_boot() {
    let machine = resolved(
        json!({"template": "medium", "disks": [{"name": "system", "size": "9Gi", "boot": true}]}),
    );
    assert_eq!(
        disk_sizes(&machine),
        [("root", "40Gi".to_owned()), ("system", "9Gi".to_owned())]
    );
    assert_eq!(
        machine
            .disks
            .iter()
            .map(|d| d.boot_order)
            .collect::<Vec<_>>(),
        [None, Some(1)]
    );
}

#[test]
fn have_the_documented_defaults() {
    let disk = resolved(json!({})).disks.remove(0);
    assert_eq!(disk.access_mode, AccessMode::ReadWriteOnce);
    assert_eq!(disk.volume_mode, VolumeMode::Filesystem);
    assert_eq!((disk.type_, disk.bus), (DiskType::Disk, DiskBus::Virtio));
    let cdrom = resolved(json!({"disks": [{"name": "iso", "size": "1Gi", "type": "cdrom"}]}))
        .disks
        .remove(1);
    assert_eq!((cdrom.type_, cdrom.bus), (DiskType::Cdrom, DiskBus::Sata));
}

#[rstest]
#[case(json!([{"name": "data"}]), "spec.disks[0].size")]
#[case(json!([{"name": "data", "size": "0"}]), "spec.disks[0].size")]
#[case(json!([{"name": "data", "size": "5m"}]), "spec.disks[0].size")]
#[case(json!([{"name": "a", "size": "1Gi"}, {"name": "a", "size": "1Gi"}]), "spec.disks[1].name")]
#[case(json!([{"name": "Data", "size": "1Gi"}]), "spec.disks[0].name")]
#[case(json!([{"name": "cloudinitdisk", "size": "1Gi"}]), "spec.disks[0].name")]
#[case(json!([{"name": "a", "size": "1Gi", "boot": true}, {"name": "b", "size": "1Gi", "boot": true}]), "spec.disks[1].boot")]
#[case(json!([{"name": "a", "size": "1Gi", "source": {}}]), "spec.disks[0].source")]
#[case(json!([{"name": "a", "size": "1Gi", "source": {"blank": {}, "http": {"url": "http://a"}}}]), "spec.disks[0].source")]
#[case(json!([{"name": "a", "size": "1Gi", "type": "cdrom", "bus": "virtio"}]), "spec.disks[0].bus")]
#[case(json!([{"name": "a", "size": "1Gi", "accessMode": "ReadOnlyMany"}]), "spec.disks[0].accessMode")]
#[case(json!([{"name": "a", "size": "1Gi", "source": {"http": {"url": "ftp://a"}}}]), "spec.disks[0].source.http.url")]
#[case(json!([{"name": "a", "size": "1Gi", "source": {"registry": {"url": "quay.io/a"}}}]), "spec.disks[0].source.registry.url")]
#[case(json!([{"name": "a", "size": "1Gi", "source": {"pvc": {"name": "web-a"}}}]), "spec.disks[0].source.pvc.name")]
#[case(json!([{"name": "a", "size": "1Gi", "source": {"pvc": {"name": "web-a", "namespace": "shop"}}}]), "spec.disks[0].source.pvc.name")]
fn unbuildable_domains_are_errors(#[case] disks: Value, #[case] path: &str) {
    assert_eq!(
        error(json!({"disks": disks})),
        (ErrorType::InvalidSpec, path.to_owned())
    );
}

#[rstest]
#[case::claim(json!({"pvc": {"name": "gold", "namespace": "images"}}), "pvc")]
#[case::snapshot(json!({"snapshot": {"name": "gold", "namespace": "images"}}), "snapshot")]
#[case::data_source(json!({"ref": {"name": "gold", "namespace": "images"}}), "ref")]
fn a_copy_from_another_namespace_needs_to_be_allowed(#[case] source: Value, #[case] kind: &str) {
    let spec = json!({"disks": [{"name": "a", "size": "1Gi", "source": source}]});
    let field = format!("spec.disks[0].source.{kind}.namespace");
    let only = |namespaces: &[&str]| Surroundings {
        clone_sources: CloneSources::Only(Arc::new(
            namespaces.iter().map(|&name| name.to_owned()).collect(),
        )),
        ..cluster()
    };
    let errors = resolve(&machine(spec.clone()), &only(&["other"])).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].path, field);
    assert_eq!(errors[0].error_type, ErrorType::InvalidSpec);
    assert!(errors[0].message.contains("CLONE_SOURCE_NAMESPACES"));

    resolved_in(&only(&["images"]), spec.clone());
    let offline = resolve(&machine(spec.clone()), &cluster()).unwrap();
    assert!(offline.notes.iter().any(|note| note.path == field));

    // A disk that was cloned before the setting changed stays.
    let there = Surroundings {
        kept_classes: [("a".to_owned(), "standard".to_owned())].into(),
        ..only(&[])
    };
    resolved_in(&there, spec);
}

#[test]
fn a_copy_within_the_namespace_of_the_machine_is_always_allowed() {
    let own = json!({"pvc": {"name": "gold", "namespace": "shop"}});
    let nothing = Surroundings {
        clone_sources: CloneSources::Only(Arc::default()),
        ..cluster()
    };
    let disk = |source| json!({"disks": [{"name": "a", "size": "1Gi", "source": source}]});
    resolved_in(&nothing, disk(own));
    resolved_in(&nothing, disk(json!({"pvc": {"name": "gold"}})));
}
