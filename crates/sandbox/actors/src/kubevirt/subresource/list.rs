//! Discovery of `subresources.kubevirt.io/v1`.

use serde_json::{Value, json};

/// Subresources that virt-api lists.
const NAMES: &[&str] = &[
    "expand-vm-spec",
    "virtualmachineinstances/vnc",
    "virtualmachineinstances/vnc/screenshot",
    "virtualmachineinstances/console",
    "virtualmachineinstances/portforward",
    "virtualmachineinstances/backup",
    "virtualmachineinstances/redefine-checkpoint",
    "virtualmachineinstances/pause",
    "virtualmachineinstances/unpause",
    "virtualmachineinstances/freeze",
    "virtualmachineinstances/unfreeze",
    "virtualmachineinstances/reset",
    "virtualmachineinstances/softreboot",
    "virtualmachines/start",
    "virtualmachines/stop",
    "virtualmachines/restart",
    "virtualmachines/migrate",
    "virtualmachines/expand-spec",
    "virtualmachines/objectgraph",
    "virtualmachines/evacuate/cancel",
    "virtualmachineinstances/guestosinfo",
    "virtualmachineinstances/userlist",
    "virtualmachineinstances/filesystemlist",
    "virtualmachineinstances/addvolume",
    "virtualmachineinstances/removevolume",
    "virtualmachineinstances/objectgraph",
    "virtualmachineinstances/sev/fetchcertchain",
    "virtualmachineinstances/sev/querylaunchmeasurement",
    "virtualmachineinstances/sev/setupsession",
    "virtualmachineinstances/sev/injectlaunchsecret",
    "virtualmachineinstances/evacuate/cancel",
];

/// The group's APIResourceList. As in virt-api, resources have no kind and verbs are null.
pub fn subresource_api_resources() -> Value {
    let resources: Vec<Value> = NAMES
        .iter()
        .map(|name| {
            json!({ "name": name, "singularName": "", "namespaced": true, "kind": "", "verbs": null })
        })
        .collect();
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "subresources.kubevirt.io/v1",
        "resources": resources,
    })
}

/// Whether virt-api serves a subresource, listed or not.
pub(super) fn is_known(resource: &str, subresource: &str) -> bool {
    let unlisted = matches!(
        (resource, subresource),
        (
            "virtualmachines",
            "addvolume" | "removevolume" | "memorydump" | "removememorydump" | "portforward"
        ) | ("virtualmachineinstances", "usbredir" | "vsock")
    );
    let full = format!("{resource}/{subresource}");
    unlisted || NAMES.contains(&full.as_str()) || subresource.starts_with("portforward/")
}
