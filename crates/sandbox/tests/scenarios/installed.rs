//! KubeVirt in managed mode: from the dump of its install strategy to its removal.

use std::{io::Read as _, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use sandbox::{Cluster, KubeVirtMode, Setup, faults::Faults};
use serde_json::{Value, json};

use super::{api, claim, cluster_api, create, printable, until, vm};

pub(super) const NAMESPACE: &str = "kubevirt";

/// A cluster without KubeVirt, with the objects of its operator's manifest.
async fn cluster(faults: &str) -> Cluster {
    let setup = Setup {
        kubevirt: KubeVirtMode::Managed,
        faults: Faults::from_yaml(faults).unwrap(),
        ..Setup::seeded(5)
    };
    let cluster = Cluster::start(setup, None).await.unwrap();
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "kubevirt-cluster-critical"}, "value": 1_000_000_000,
        }),
    ] {
        sandbox::apply(&cluster.client(), object).await.unwrap();
    }
    cluster
}

pub(super) fn within(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

fn job(version: &str) -> Value {
    let image = format!("registry.example/kubevirt/virt-operator:{version}");
    let config = json!({
        "id": format!("id-of-{version}"),
        "namespace": NAMESPACE,
        "registry": "registry.example/kubevirt",
        "kubeVirtVersion": version,
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "dump"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "install-strategy-upload",
                "image": image,
                "command": ["virt-operator", "--dump-install-strategy"],
                "env": [{"name": "TARGET_DEPLOYMENT_CONFIG", "value": config.to_string()}],
            }],
        }}},
    })
}

/// Documents of a version's install strategy, repaired where they cannot be applied as they are.
async fn dump(client: &Client, version: &str) -> Vec<Value> {
    let jobs = within(client, "batch", "Job");
    create(&jobs, job(version)).await.unwrap();
    until(&jobs, "dump", |job| job.data["status"]["succeeded"] == 1).await;
    jobs.delete("dump", &DeleteParams::background())
        .await
        .unwrap();
    let maps = within(client, "", "ConfigMap");
    let strategies = ListParams::default().labels("kubevirt.io/install-strategy");
    let map = maps.list(&strategies).await.unwrap().items.pop().unwrap();
    maps.delete(
        map.metadata.name.as_ref().unwrap(),
        &DeleteParams::default(),
    )
    .await
    .unwrap();
    let annotations = map.metadata.annotations.unwrap();
    assert_eq!(
        annotations["kubevirt.io/install-strategy-identifier"],
        format!("id-of-{version}")
    );
    let packed = map.data["data"]["manifests"].as_str().unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(STANDARD.decode(packed).unwrap().as_slice())
        .read_to_string(&mut text)
        .unwrap();
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    objects.retain(|object| {
        let kind = object["kind"].as_str().unwrap();
        // Specific to OpenShift, created by the installer, or in need of a reachable virt-api.
        !matches!(
            kind,
            "SecurityContextConstraints" | "Route" | "Secret" | "ConfigMap"
        ) && !kind.starts_with("ValidatingAdmissionPolicy")
    });
    for object in &mut objects {
        let ports = object.pointer_mut("/spec/template/spec/containers/0/ports");
        if let Some(Value::Array(ports)) = ports {
            ports.dedup_by_key(|port| port["containerPort"].clone());
        }
    }
    objects
}

/// A CA in PEM, and the Secret of a virt-api certificate that it signed.
pub(super) fn certificates() -> (String, Value) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec![format!("virt-api.{NAMESPACE}.svc")];
    let leaf = rcgen::CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, &ca)
        .unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "kubevirt-virt-api-certs", "namespace": NAMESPACE},
        "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": STANDARD.encode(leaf.pem()),
            "tls.key": STANDARD.encode(key.serialize_pem()),
        },
    });
    (STANDARD.encode(ca.pem()), secret)
}

/// Applies the objects of a strategy, with a CA bundle in its webhooks.
async fn install(client: &Client, objects: Vec<Value>, bundle: &str) {
    for mut object in objects {
        if object["kind"].as_str().unwrap().contains("Instancetype")
            || object["kind"].as_str().unwrap().contains("Preference")
        {
            continue;
        }
        if let Some(Value::Array(hooks)) = object.get_mut("webhooks") {
            for hook in hooks {
                hook["clientConfig"]["caBundle"] = bundle.into();
            }
        }
        sandbox::apply(client, object).await.unwrap();
    }
}

async fn until_ready(client: &Client) {
    let deployments = within(client, "apps", "Deployment");
    for name in ["virt-api", "virt-controller", "virt-exportproxy"] {
        until(&deployments, name, |deployment| {
            deployment.data["status"]["readyReplicas"] == 2
        })
        .await;
    }
    until(
        &within(client, "apps", "DaemonSet"),
        "virt-handler",
        |set| set.data["status"]["numberReady"] == 3,
    )
    .await;
}

/// KubeVirt v1.8.4, installed and ready.
pub(super) async fn installed() -> Cluster {
    let cluster = cluster("").await;
    let client = cluster.client();
    let objects = dump(&client, "v1.8.4").await;
    let (bundle, secret) = certificates();
    sandbox::apply(&client, secret).await.unwrap();
    install(&client, objects, &bundle).await;
    until_ready(&client).await;
    cluster
}

async fn run_a_guest(client: &Client, name: &str) {
    let claims = api(client, "", "v1", "PersistentVolumeClaim");
    if claims.get_opt("root").await.unwrap().is_none() {
        create(&claims, claim("root")).await.unwrap();
    }
    let vms = api(client, "kubevirt.io", "v1", "VirtualMachine");
    create(&vms, vm(name)).await.unwrap();
    until(&vms, name, |vm| printable(vm) == "Running").await;
}

pub(super) async fn patch(api: &Api<DynamicObject>, name: &str, patch: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn guests_run_on_a_kubevirt_installed_from_its_strategy() {
    let cluster = installed().await;
    let client = cluster.client();
    run_a_guest(&client, "web").await;
    let nodes = cluster_api(&client, "", "v1", "Node");
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        assert_eq!(
            node.metadata.labels.unwrap()["kubevirt.io/schedulable"],
            "true"
        );
    }
    let services = cluster_api(&client, "apiregistration.k8s.io", "v1", "APIService");
    let service = services.get("v1.subresources.kubevirt.io").await.unwrap();
    assert_eq!(service.data["status"]["conditions"][0]["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn vms_are_unknown_before_kubevirt_is_installed() {
    let cluster = cluster("").await;
    let client = cluster.client();
    let nodes = cluster_api(&client, "", "v1", "Node");
    until(&nodes, "node-1", |node| {
        node.data["status"]["nodeInfo"]["kubeletVersion"].is_string()
    })
    .await;
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        let labels = node.metadata.labels.unwrap();
        assert!(
            labels.keys().all(|key| !key.contains("kubevirt.io")),
            "{labels:?}"
        );
    }
    let vms = api(&client, "kubevirt.io", "v1", "VirtualMachine");
    assert!(vms.list(&ListParams::default()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_release_cannot_be_dumped() {
    let cluster = cluster("").await;
    let client = cluster.client();
    let mut dump = job("v9.0.0");
    dump["spec"]["activeDeadlineSeconds"] = 300.into();
    let jobs = within(&client, "batch", "Job");
    create(&jobs, dump).await.unwrap();
    let pods = within(&client, "", "Pod");
    let mut reason = Value::Null;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let pod = pods.list(&ListParams::default()).await.unwrap().items.pop();
        reason = pod.map_or(Value::Null, |pod| {
            pod.data["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone()
        });
        if reason == "ImagePullBackOff" {
            break;
        }
    }
    assert_eq!(reason, "ImagePullBackOff");
    let failed = until(&jobs, "dump", |job| job.data["status"]["failed"] == 1).await;
    let conditions = failed.data["status"]["conditions"]
        .as_array()
        .unwrap()
        .clone();
    assert!(
        conditions
            .iter()
            .any(|one| one["type"] == "Failed" && one["reason"] == "DeadlineExceeded"),
        "{conditions:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn guests_keep_running_without_kubevirts_components() {
    let cluster = installed().await;
    let client = cluster.client();
    run_a_guest(&client, "web").await;
    let deployments = within(&client, "apps", "Deployment");
    patch(
        &deployments,
        "virt-controller",
        json!({"spec": {"replicas": 0}}),
    )
    .await;
    within(&client, "apps", "DaemonSet")
        .delete("virt-handler", &DeleteParams::background())
        .await
        .unwrap();
    let nodes = cluster_api(&client, "", "v1", "Node");
    for node in ["node-1", "node-2", "node-3"] {
        until(&nodes, node, |node| {
            node.metadata.labels.as_ref().unwrap()["kubevirt.io/schedulable"] == "false"
        })
        .await;
    }
    let vms = api(&client, "kubevirt.io", "v1", "VirtualMachine");
    create(&vms, vm("late")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let late = vms.get("late").await.unwrap();
    assert_eq!(late.data["status"]["created"], Value::Null);
    let guests = api(&client, "kubevirt.io", "v1", "VirtualMachineInstance");
    let web = guests.get("web").await.unwrap();
    assert_eq!(web.data["status"]["phase"], "Running");

    patch(
        &deployments,
        "virt-controller",
        json!({"spec": {"replicas": 2}}),
    )
    .await;
    until(&vms, "late", |vm| vm.data["status"]["created"] == true).await;
}

#[tokio::test(start_paused = true)]
async fn a_crashing_canary_blocks_the_rollout_until_the_rollback() {
    let faults = "- {kind: Pod, fault: 'CrashLoopBackOff=virt-handler:v1.9.1'}\n";
    let cluster = cluster(faults).await;
    let client = cluster.client();
    let objects = dump(&client, "v1.8.4").await;
    let (bundle, secret) = certificates();
    sandbox::apply(&client, secret).await.unwrap();
    install(&client, objects, &bundle).await;
    until_ready(&client).await;
    run_a_guest(&client, "web").await;

    let sets = within(&client, "apps", "DaemonSet");
    let template = sets.get("virt-handler").await.unwrap().data["spec"]["template"].clone();
    let with = |image: &str| {
        let mut template = template.clone();
        template["spec"]["containers"][0]["image"] = image.into();
        json!({"spec": {"template": template}})
    };
    patch(
        &sets,
        "virt-handler",
        with("registry.example/virt-handler:v1.9.1"),
    )
    .await;
    until(&sets, "virt-handler", |set| {
        set.data["status"]["updatedNumberScheduled"] == 1
    })
    .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let blocked = sets.get("virt-handler").await.unwrap();
    assert_eq!(blocked.data["status"]["updatedNumberScheduled"], 1);
    assert_eq!(blocked.data["status"]["numberReady"], 2);
    let pods = within(&client, "", "Pod");
    let handlers = ListParams::default().labels("kubevirt.io=virt-handler");
    let restarts = pods.list(&handlers).await.unwrap().items.iter().any(|pod| {
        pod.data["status"]["containerStatuses"][0]["restartCount"]
            .as_i64()
            .is_some_and(|restarts| restarts > 0)
    });
    assert!(restarts);

    patch(
        &sets,
        "virt-handler",
        json!({"spec": {"template": template}}),
    )
    .await;
    until(&sets, "virt-handler", |set| {
        set.data["status"]["numberReady"] == 3
    })
    .await;
    let guests = api(&client, "kubevirt.io", "v1", "VirtualMachineInstance");
    let web = guests.get("web").await.unwrap();
    assert_eq!(web.data["status"]["phase"], "Running");
}
