//! Workaround for API servers that decode an empty string as null, as Kubernetes 1.20 built with a newer
//! Go compiler does.

use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

/// Makes all strings of KubeVirt's definitions nullable on such a server. The definitions must be
/// served.
pub(crate) async fn allow_null_strings(client: &Client) {
    let probe = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {"domain": {"devices": {}}}, "status": {"nodeName": ""}});
    let kind = GroupVersionKind::gvk("kubevirt.io", "v1", "VirtualMachineInstance");
    let instances: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let probe = serde_json::from_value(probe).unwrap();
    match instances.create(&dry, &probe).await {
        Err(kube::Error::Api(status)) if status.message.contains("\"null\"") => {}
        answer => {
            answer.unwrap();
            return;
        }
    }
    println!(
        "this API server decodes empty strings as null: allowing null in KubeVirt's definitions"
    );
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> =
        Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    for mut definition in definitions.list(&ListParams::default()).await.unwrap() {
        let name = definition.name_any();
        if name.ends_with("kubevirt.io") {
            make_strings_nullable(&mut definition.data);
            let versions = json!({"spec": {"versions": definition.data["spec"]["versions"]}});
            let (params, patch) = (PatchParams::default(), Patch::Merge(versions));
            definitions.patch(&name, &params, &patch).await.unwrap();
        }
    }
}

fn make_strings_nullable(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields
                .get("type")
                .is_some_and(|of_type| of_type == "string")
            {
                fields.insert("nullable".to_owned(), true.into());
            }
            // Schemas below `anyOf` may not be nullable.
            let fields = fields.iter_mut().filter(|(key, _)| *key != "anyOf");
            fields.for_each(|(_, schema)| make_strings_nullable(schema));
        }
        Value::Array(items) => items.iter_mut().for_each(make_strings_nullable),
        _ => {}
    }
}
