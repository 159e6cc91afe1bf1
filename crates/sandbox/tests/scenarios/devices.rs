//! Hotplug of disks and interfaces.

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use sandbox::{Cluster, Setup};
use serde_json::{Value, json};

use super::{api, create, printable, until};

fn claim(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn volumes(more: &Value) -> (Value, Value) {
    let mut volumes = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "root"}}]);
    let mut disks = json!([{"name": "root", "disk": {"bus": "virtio"}}]);
    if let (Some(volumes), Some(disks), Some(name)) = (
        volumes.as_array_mut(),
        disks.as_array_mut(),
        more["name"].as_str(),
    ) {
        volumes.push(more.clone());
        disks.push(json!({"name": name, "disk": {"bus": "virtio"}}));
    }
    (volumes, disks)
}

async fn running(client: &Client) -> (Api<DynamicObject>, Api<DynamicObject>) {
    let vms = api(client, "kubevirt.io", "v1", "VirtualMachine");
    let instances = api(client, "kubevirt.io", "v1", "VirtualMachineInstance");
    let claims = api(client, "", "v1", "PersistentVolumeClaim");
    create(&claims, claim("root", "ReadWriteMany"))
        .await
        .unwrap();
    let (volumes, disks) = volumes(&Value::Null);
    let vm = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": "web"},
        "spec": {"runStrategy": "Always", "template": {"spec": {
            "domain": {
                "memory": {"guest": "1Gi"},
                "devices": {
                    "disks": disks,
                    "interfaces": [{"name": "default", "masquerade": {}}],
                },
            },
            "networks": [{"name": "default", "pod": {}}],
            "volumes": volumes,
        }}},
    });
    create(&vms, vm).await.unwrap();
    until(&vms, "web", |vm| printable(vm) == "Running").await;
    (vms, instances)
}

async fn change(vms: &Api<DynamicObject>, spec: Value) {
    let patch = json!({"spec": {"template": {"spec": spec}}});
    let params = PatchParams::default();
    vms.patch("web", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
}

fn volume<'a>(vmi: &'a DynamicObject, name: &str) -> Option<&'a Value> {
    let statuses = vmi.data["status"]["volumeStatus"].as_array()?;
    statuses.iter().find(|status| status["name"] == name)
}

fn requires_restart(vm: &DynamicObject) -> bool {
    let conditions = vm.data["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "RestartRequired"))
}

#[tokio::test(start_paused = true)]
async fn a_hotpluggable_volume_is_attached_to_a_running_guest_grows_and_is_detached() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let (vms, instances) = running(&client).await;
    let claims = api(&client, "", "v1", "PersistentVolumeClaim");

    let data = json!({
        "name": "data",
        "persistentVolumeClaim": {"claimName": "data", "hotpluggable": true},
    });
    let (with, disks) = volumes(&data);
    change(
        &vms,
        json!({"volumes": with, "domain": {"devices": {"disks": disks}}}),
    )
    .await;
    let waiting = until(&instances, "web", |vmi| volume(vmi, "data").is_some()).await;
    assert_eq!(
        volume(&waiting, "data").unwrap()["message"],
        "PVC data not found"
    );
    create(&claims, claim("data", "ReadWriteMany"))
        .await
        .unwrap();
    let attached = until(&instances, "web", |vmi| {
        volume(vmi, "data").is_some_and(|status| status["phase"] == "Ready")
    })
    .await;
    let status = volume(&attached, "data").unwrap();
    assert_eq!(status["target"], "vdb");
    assert_eq!(status["reason"], "VolumeReady");
    assert!(status["hotplugVolume"]["attachPodName"].is_string());
    assert!(!requires_restart(&vms.get("web").await.unwrap()));

    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let params = PatchParams::default();
    claims
        .patch("data", &params, &Patch::Merge(&grow))
        .await
        .unwrap();
    until(&claims, "data", |claim| {
        claim.data["status"]["capacity"]["storage"] == "2Gi"
    })
    .await;
    until(&instances, "web", |vmi| {
        volume(vmi, "data").is_some_and(|status| {
            status["persistentVolumeClaimInfo"]["capacity"]["storage"] == "2Gi"
        })
    })
    .await;

    let (without, disks) = volumes(&Value::Null);
    change(
        &vms,
        json!({"volumes": without, "domain": {"devices": {"disks": disks}}}),
    )
    .await;
    until(&instances, "web", |vmi| volume(vmi, "data").is_none()).await;
    assert!(!requires_restart(&vms.get("web").await.unwrap()));
    let pods = api(&client, "", "v1", "Pod");
    let left = pods.list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(left.items.len(), 1, "the launcher alone");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_not_hotpluggable_requires_a_restart() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let (vms, instances) = running(&client).await;
    let data = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    let (with, disks) = volumes(&data);
    change(
        &vms,
        json!({"volumes": with, "domain": {"devices": {"disks": disks}}}),
    )
    .await;
    until(&vms, "web", requires_restart).await;
    assert!(volume(&instances.get("web").await.unwrap(), "data").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_hotpluggable_volume_of_another_bus_is_refused() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let (vms, _) = running(&cluster.client()).await;
    let data = json!({
        "name": "data",
        "persistentVolumeClaim": {"claimName": "data", "hotpluggable": true},
    });
    let (with, mut disks) = volumes(&data);
    disks[1]["disk"]["bus"] = json!("sata");
    change(
        &vms,
        json!({"volumes": with, "domain": {"devices": {"disks": disks}}}),
    )
    .await;
    let failed = until(&vms, "web", |vm| {
        let conditions = vm.data["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Failure"))
    })
    .await;
    let conditions = failed.data["status"]["conditions"].as_array().unwrap();
    let failure = conditions
        .iter()
        .find(|one| one["type"] == "Failure")
        .unwrap();
    assert_eq!(failure["reason"], "HotPlugVolumeError");
    let message = failure["message"].as_str().unwrap();
    assert!(
        message.ends_with(
            "disk [data] requires bus to be 'scsi' or 'virtio'. [sata] is not permitted."
        ),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_interface_is_added_by_a_migration_and_removed_at_once() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let (vms, instances) = running(&client).await;
    let node = instances.get("web").await.unwrap().data["status"]["nodeName"].clone();
    let networks = json!([
        {"name": "default", "pod": {}},
        {"name": "blue", "multus": {"networkName": "blue"}},
    ]);
    let interfaces = |blue: Value| json!([{"name": "default", "masquerade": {}}, blue]);
    let bridged = interfaces(json!({"name": "blue", "bridge": {}}));
    change(
        &vms,
        json!({"networks": networks, "domain": {"devices": {"interfaces": bridged}}}),
    )
    .await;
    let required = |vmi: &DynamicObject| {
        let conditions = vmi.data["status"]["conditions"].as_array().cloned();
        conditions
            .into_iter()
            .flatten()
            .find(|one| one["type"] == "MigrationRequired")
            .map(|one| one["reason"].clone())
    };
    until(&instances, "web", |vmi| {
        required(vmi) == Some(json!("AutoMigrationPending"))
    })
    .await;
    let has_blue = |vmi: &DynamicObject| {
        let shown = vmi.data["status"]["interfaces"].as_array();
        shown.is_some_and(|all| all.iter().any(|one| one["name"] == "blue"))
    };
    let moved = until(&instances, "web", has_blue).await;
    assert_ne!(moved.data["status"]["nodeName"], node);
    until(&instances, "web", |vmi| required(vmi).is_none()).await;
    assert!(!requires_restart(&vms.get("web").await.unwrap()));

    let absent = interfaces(json!({"name": "blue", "bridge": {}, "state": "absent"}));
    change(&vms, json!({"domain": {"devices": {"interfaces": absent}}})).await;
    until(&instances, "web", |vmi| !has_blue(vmi)).await;
    let forgotten = until(&vms, "web", |vm| {
        vm.data["spec"]["template"]["spec"]["networks"]
            .as_array()
            .is_some_and(|networks| networks.len() == 1)
    })
    .await;
    assert!(!requires_restart(&forgotten));
}

#[tokio::test(start_paused = true)]
async fn an_interface_that_is_not_marked_absent_requires_a_restart() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let (vms, _) = running(&cluster.client()).await;
    change(
        &vms,
        json!({"networks": [], "domain": {"devices": {"interfaces": []}}}),
    )
    .await;
    until(&vms, "web", requires_restart).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_grows_only_where_its_class_allows_it() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let claims = api(&client, "", "v1", "PersistentVolumeClaim");
    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let params = PatchParams::default();
    let mut fixed = claim("data", "ReadWriteMany");
    fixed["spec"]["storageClassName"] = json!("fixed");
    create(&claims, fixed).await.unwrap();
    let refusal = async || {
        let refused = claims.patch("data", &params, &Patch::Merge(&grow)).await;
        let Err(kube::Error::Api(refused)) = refused else {
            panic!("a refusal")
        };
        assert_eq!(refused.code, 403);
        refused.message.clone()
    };
    until(&claims, "data", |claim| {
        claim.data["status"]["phase"] == "Bound"
    })
    .await;
    assert_eq!(
        refusal().await,
        "persistentvolumeclaims \"data\" is forbidden: only dynamically provisioned pvc can be \
         resized and the storageclass that provisions the pvc must support resize"
    );
}
