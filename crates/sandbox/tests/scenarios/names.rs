//! VMs with names that are invalid for pods, and refused pods.

use kube::api::{DynamicObject, ListParams};
use sandbox::{Cluster, Setup};
use serde_json::json;

use super::{api, claim, create, printable, until, vm};

#[tokio::test(start_paused = true)]
async fn the_hostname_of_a_long_or_dotted_name_is_its_first_label() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let vms = api(&client, "kubevirt.io", "v1", "VirtualMachine");
    let pods = api(&client, "", "v1", "Pod");
    let claims = api(&client, "", "v1", "PersistentVolumeClaim");
    for (name, requested, hostname) in [
        ("web.example.org", "", "web"),
        (&"x".repeat(80), "", &"x".repeat(63)),
        ("other.example.org", "front", "front"),
    ] {
        create(&claims, claim(name)).await.unwrap();
        let mut vm = vm(name);
        let spec = &mut vm["spec"]["template"]["spec"];
        spec["hostname"] = json!(requested);
        spec["volumes"][0]["persistentVolumeClaim"]["claimName"] = json!(name);
        create(&vms, vm).await.unwrap();
        until(&vms, name, |vm| printable(vm) == "Running").await;
        let launchers = ListParams::default().labels(&format!("vm.kubevirt.io/name={hostname}"));
        let launchers = pods.list(&launchers).await.unwrap().items;
        let [launcher] = launchers.as_slice() else {
            panic!("one pod of {name} and not {launchers:?}");
        };
        assert_eq!(launcher.data["spec"]["hostname"], hostname);
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_reports_an_invalid_pod() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let vms = api(&client, "kubevirt.io", "v1", "VirtualMachine");
    let events = api(&client, "", "v1", "Event");
    let claims = api(&client, "", "v1", "PersistentVolumeClaim");
    create(&claims, claim("root")).await.unwrap();
    // Truncated, it ends with a hyphen, which is invalid for a hostname.
    let name = format!("{}-y", "x".repeat(62));
    create(&vms, vm(&name)).await.unwrap();

    let why = |vm: &DynamicObject| {
        let conditions = vm.data["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.into_iter().flatten();
        let failed = conditions.find(|condition| condition["reason"] == "FailedCreate")?;
        failed["message"].as_str().map(str::to_owned)
    };
    let vm = until(&vms, &name, |vm| why(vm).is_some()).await;
    let message = why(&vm).unwrap();
    assert!(
        message.contains("failed to create virtual machine pod: Pod \"virt-launcher-xxx")
            && message.contains("spec.hostname: Invalid value: \"xxx"),
        "{message}"
    );
    let events = events.list(&ListParams::default()).await.unwrap();
    assert!(
        events.items.iter().any(|event| {
            let message = event.data["message"].as_str().unwrap_or_default();
            event.data["reason"] == "FailedCreate" && message.starts_with("Error creating pod: ")
        }),
        "{events:?}"
    );
}
