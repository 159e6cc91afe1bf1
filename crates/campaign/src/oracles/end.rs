//! Oracles of the end state: once faults and actions have ended, every object is as its spec asks or
//! reports the true reason why not, and the remedies that the operator gives help.

use serde_json::{Value, json};

use crate::{
    decision::{Action, Propagation},
    objects::condition,
    user::User,
};

/// Annotation with which a user confirms that an empty disk replaces a lost one.
pub(super) const RECREATE_DISK: &str = "vitistack.io/recreate-disk";

type Unmet = Vec<(&'static str, String)>;

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) async fn machines(user: &User) -> (Unmet, Vec<Action>) {
    let (mut unmet, mut remedies) = (Vec::new(), Vec::new());
    let virtual_machines = user.list("VirtualMachine").await;
    let claims = user.list("PersistentVolumeClaim").await;
    let secrets = user.list("Secret").await;
    let ledgers = user.list("NetworkConfiguration").await;
    let definitions = user.list("NetworkAttachmentDefinition").await;
    let machines = user.list("Machine").await;
    unmet.extend(orphaned_ledgers(&machines, &ledgers));
    for machine in machines {
        let name = text(&machine, "/metadata/name");
        let ready = condition(&machine, "Ready");
        let (reason, message) = (text(ready, "/reason"), text(ready, "/message"));
        let wanted = match text(&machine, "/spec/powerState") {
            "Stopped" => "Stopped",
            "Paused" => "Paused",
            _ => "Running",
        };
        let is_current =
            machine["status"]["observedGeneration"] == machine["metadata"]["generation"];
        let is_deleting = !machine["metadata"]["deletionTimestamp"].is_null();
        if reason == wanted && is_current && !is_deleting {
            let differences = [
                disks_exist(&machine, &virtual_machines, &claims),
                cloud_init_matches(&machine, &secrets),
                ledger_matches(&machine, &virtual_machines, &ledgers),
                vlan_matches(&machine, &definitions),
            ];
            for difference in differences.into_iter().flatten() {
                unmet.push((
                    "as-asked-for",
                    format!("Machine {name} is {reason}, but {difference}"),
                ));
            }
            continue;
        }
        let text = format!("Machine {name} should be {wanted}: {reason}: {message}");
        match remedy(&machine, name, reason, message, user).await {
            actions if actions.is_empty() => unmet.push(("ready-or-a-true-reason", text)),
            actions => {
                unmet.push(("the-remedy-helps", text));
                remedies.extend(actions);
            }
        }
    }
    if remedies.is_empty() {
        (unmet, remedies)
    } else {
        // Other unmet expectations may be consequences.
        unmet.retain(|(oracle, _)| *oracle == "the-remedy-helps");
        (unmet, remedies)
    }
}

fn disks_exist(machine: &Value, all: &[Value], claims: &[Value]) -> Option<String> {
    let name = text(machine, "/metadata/name");
    let vm = all.iter().find(|vm| text(vm, "/metadata/name") == name)?;
    let volumes = vm.pointer("/spec/template/spec/volumes")?.as_array()?;
    let missing = volumes.iter().find_map(|volume| {
        let claim = volume.pointer("/persistentVolumeClaim/claimName");
        let claim = claim.or(volume.pointer("/dataVolume/name"))?.as_str()?;
        let exists = claims
            .iter()
            .any(|one| text(one, "/metadata/name") == claim);
        (!exists).then_some(claim)
    });
    missing.map(|claim| format!("claim {claim} of its VirtualMachine does not exist"))
}

fn cloud_init_matches(machine: &Value, secrets: &[Value]) -> Option<String> {
    let data = machine.pointer("/spec/cloudInit/userData")?.as_str()?;
    let name = format!("{}-cloud-init", text(machine, "/metadata/name"));
    let Some(secret) = secrets
        .iter()
        .find(|one| text(one, "/metadata/name") == name)
    else {
        return Some(format!("Secret {name} does not exist"));
    };
    let stored = text(secret, "/data/userdata");
    let expected = encoded(data);
    (stored != expected).then(|| format!("Secret {name} does not contain its user data"))
}

fn named<'a>(all: &'a [Value], name: &str) -> Option<&'a Value> {
    all.iter().find(|one| text(one, "/metadata/name") == name)
}

/// Whether a Machine on the network of a NetworkNamespace has a ledger with the MAC address of its guest.
fn ledger_matches(machine: &Value, vms: &[Value], ledgers: &[Value]) -> Option<String> {
    machine.pointer("/spec/network/networkNamespaceName")?;
    let name = text(machine, "/metadata/name");
    let Some(ledger) = named(ledgers, name) else {
        return Some("it has no address ledger".to_owned());
    };
    let owner = text(ledger, "/metadata/ownerReferences/0/uid");
    if owner != text(machine, "/metadata/uid") {
        return Some("its address ledger has another owner".to_owned());
    }
    let interface = "/spec/template/spec/domain/devices/interfaces/0/macAddress";
    let address = text(named(vms, name)?, interface);
    let recorded = text(ledger, "/spec/networkInterfaces/0/macAddress");
    (recorded != address).then(|| format!("its ledger records {recorded}, not {address}"))
}

/// Whether the attachment definition of a Machine's VLAN is the operator's.
fn vlan_matches(machine: &Value, definitions: &[Value]) -> Option<String> {
    machine.pointer("/spec/network/networkNamespaceName")?;
    let config = text(named(definitions, "vlan42")?, "/spec/config");
    (!config.contains("bridge")).then(|| format!("its VLAN is configured as {config}"))
}

/// Address ledgers whose Machine is gone.
fn orphaned_ledgers(machines: &[Value], ledgers: &[Value]) -> Unmet {
    let owner = "/metadata/annotations/vitistack.io~1machine-uid";
    let is_orphaned = |ledger: &&Value| {
        let uid = text(ledger, owner);
        !uid.is_empty() && !machines.iter().any(|it| text(it, "/metadata/uid") == uid)
    };
    let orphans = ledgers.iter().filter(is_orphaned).map(|ledger| {
        let name = text(ledger, "/metadata/name");
        let remains = format!("ledger {name} remains although its Machine is gone");
        ("no-orphan", remains)
    });
    orphans.collect()
}

/// Base64.
fn encoded(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits = three
            .iter()
            .chain(std::iter::repeat(&0))
            .take(3)
            .fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        for place in 0..4 {
            let letter = if place <= three.len() {
                char::from(LETTERS[bits >> (18 - 6 * place) & 63])
            } else {
                '='
            };
            encoded.push(letter);
        }
    }
    encoded
}

/// Actions that the operator's message asks of a user.
async fn remedy(
    machine: &Value,
    name: &str,
    reason: &str,
    message: &str,
    user: &User,
) -> Vec<Action> {
    let patch = |patch: Value| {
        vec![Action::Patch {
            kind: "Machine",
            name: name.to_owned(),
            patch,
        }]
    };
    match reason {
        "ForeignObject" if message.contains("vitistack.io/adopt-disks") => {
            let annotations = json!({ "vitistack.io/adopt-disks": "true" });
            patch(json!({ "metadata": { "annotations": annotations } }))
        }
        "ForeignObject" => delete_named(message, user).await,
        "TemplateNotFound" => {
            patch(json!({ "spec": { "template": "small", "machineClass": null } }))
        }
        "NetworkConfigurationNotFound" => patch(json!({ "spec": { "networks": null } })),
        "InsufficientResources" => {
            let small = json!({ "cpu": { "cores": 1 }, "memory": { "size": "1Gi" } });
            patch(json!({ "spec": { "resources": small } }))
        }
        "InvalidSpec" => patch(json!({ "spec": {
            "disks": null, "domain": null, "resources": null, "cloudInit": null,
        } })),
        // The user copies the data and then stops the guest.
        "DataLost" if message.contains("is being deleted") => {
            patch(json!({ "spec": { "powerState": "Stopped" } }))
        }
        "DataLost" => {
            let annotations = json!({ RECREATE_DISK: recreated(machine, message) });
            patch(json!({ "metadata": { "annotations": annotations } }))
        }
        "Deleting" => delete_referrers(message, user).await,
        _ => Vec::new(),
    }
}

/// UIDs of the claims that an empty disk may replace: those of the message and earlier ones.
fn recreated(machine: &Value, message: &str) -> String {
    let prefix = format!("{RECREATE_DISK}: \"");
    let uids = message.split(&prefix).skip(1);
    let uids = uids.filter_map(|rest| rest.split('"').next());
    let before = machine["metadata"]["annotations"][RECREATE_DISK].as_str();
    let all: Vec<&str> = before.into_iter().chain(uids).collect();
    all.join(",")
}

/// Deletion of the objects that a message names.
async fn delete_named(message: &str, user: &User) -> Vec<Action> {
    let mut actions = Vec::new();
    for kind in [
        "VirtualMachine",
        "Secret",
        "PersistentVolumeClaim",
        "DataVolume",
    ] {
        for object in user.list(kind).await {
            let name = text(&object, "/metadata/name");
            if message.contains(&format!("{kind} {name} "))
                || message.contains(&format!("{kind} \"{name}\""))
                || message.contains(&format!("{kind} default/{name} "))
            {
                actions.push(Action::Delete {
                    kind,
                    name: name.to_owned(),
                    propagation: Propagation::Background,
                });
            }
        }
    }
    actions
}

/// Deletion of the VirtualMachines that use the disks of a Machine that is being deleted.
async fn delete_referrers(message: &str, user: &User) -> Vec<Action> {
    let mut actions = Vec::new();
    for object in user.list("VirtualMachine").await {
        let name = text(&object, "/metadata/name");
        if message.contains(&format!("VirtualMachine {name}"))
            || message.contains(&format!("VirtualMachine default/{name}"))
            || message.contains(&format!("VirtualMachine \"{name}\""))
        {
            actions.push(Action::Delete {
                kind: "VirtualMachine",
                name: name.to_owned(),
                propagation: Propagation::Background,
            });
        }
    }
    actions
}

pub(super) async fn installation(user: &User) -> (Unmet, Vec<Action>) {
    let mut unmet = Vec::new();
    for kubevirt in user.list("KubeVirt").await {
        let status = &kubevirt["status"];
        let version = &kubevirt["spec"]["imageTag"];
        let is_deployed = status["phase"] == "Deployed"
            && status["observedKubeVirtVersion"] == *version
            && status["observedDeploymentID"] == status["targetDeploymentID"]
            && status["observedGeneration"] == kubevirt["metadata"]["generation"]
            && condition(&kubevirt, "Available")["status"] == "True"
            && condition(&kubevirt, "Progressing")["status"] == "False"
            && kubevirt["metadata"]["deletionTimestamp"].is_null();
        if !is_deployed {
            let status_text = ["Available", "Progressing", "Degraded", "Synchronized"].map(|of| {
                let found = condition(&kubevirt, of);
                format!("{of}={} {}", found["status"], found["message"])
            });
            let status_text = format!(
                "KubeVirt should be {version} and is {} {}: {}",
                status["phase"],
                status["observedKubeVirtVersion"],
                status_text.join("; ")
            );
            unmet.push(("deployed-or-gone", status_text));
        }
    }
    if user.list("KubeVirt").await.is_empty() {
        for kind in ["Deployment", "DaemonSet"] {
            for object in user.list(kind).await {
                let name = text(&object, "/metadata/name");
                unmet.push((
                    "no-orphan",
                    format!("{kind} {name} remains although KubeVirt is removed"),
                ));
            }
        }
    }
    (unmet, Vec::new())
}
