//! KubeVirt that is installed by somebody: from the dump of its strategy to its end.

use std::{io::Read as _, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Request;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use sandbox::{Backend, Cluster, KubeVirtMode, Setup, faults::Faults};
use serde_json::{Value, json};

use super::{api, claim, cluster_api, create, printable, until, vm};

const NAMESPACE: &str = "kubevirt";

/// A cluster that waits for KubeVirt, with what its operator's manifest brings.
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

fn within(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
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

/// The documents that the dump of a version leaves, mended where they cannot be applied as they are.
async fn dump(client: &Client, version: &str) -> Vec<Value> {
    let jobs = within(client, "batch", "Job");
    create(&jobs, job(version)).await.unwrap();
    until(&jobs, "dump", |job| job.data["status"]["succeeded"] == 1).await;
    jobs.delete("dump", &DeleteParams::background())
        .await
        .unwrap();
    let maps = within(client, "", "ConfigMap");
    let ours = ListParams::default().labels("kubevirt.io/install-strategy");
    let map = maps.list(&ours).await.unwrap().items.pop().unwrap();
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
        // Of OpenShift, made by the installer, or in need of a virt-api that answers.
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

/// A CA, and a certificate of it for virt-api: what goes into bundles and into the Secret.
fn certificates() -> (String, Value) {
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
        for hook in object["webhooks"].as_array_mut().into_iter().flatten() {
            hook["clientConfig"]["caBundle"] = bundle.into();
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
async fn installed() -> Cluster {
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

async fn patch(api: &Api<DynamicObject>, name: &str, patch: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

fn refused(error: kube::Error) -> String {
    let kube::Error::Api(status) = error else {
        panic!("an answer of the server")
    };
    assert_eq!(status.code, 500, "{}", status.message);
    status.message
}

#[tokio::test(start_paused = true)]
async fn guests_run_on_a_kubevirt_that_was_installed_from_its_dump() {
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
async fn nothing_is_known_of_guests_before_kubevirt_is_installed() {
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
async fn a_release_that_does_not_exist_cannot_be_dumped() {
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
async fn without_its_components_kubevirt_rests_and_guests_go_on() {
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
    let vmis = api(&client, "kubevirt.io", "v1", "VirtualMachineInstance");
    let web = vmis.get("web").await.unwrap();
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
async fn webhooks_fail_without_virt_api_and_without_a_ca_that_signed_it() {
    let cluster = installed().await;
    let client = cluster.client();
    let types = cluster_api(
        &client,
        "instancetype.kubevirt.io",
        "v1beta1",
        "VirtualMachineClusterInstancetype",
    );
    let small = |name: &str| {
        json!({
            "apiVersion": "instancetype.kubevirt.io/v1beta1",
            "kind": "VirtualMachineClusterInstancetype",
            "metadata": {"name": name},
            "spec": {"cpu": {"guest": 1}, "memory": {"guest": "2Gi"}},
        })
    };
    create(&types, small("one")).await.unwrap();

    let (other, _) = certificates();
    let hooks = cluster_api(
        &client,
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
    );
    let validator = hooks.get("virt-api-validator").await.unwrap();
    let mut webhooks = validator.data["webhooks"].clone();
    let right = webhooks[0]["clientConfig"]["caBundle"].clone();
    let mut set = async |bundle: Value| {
        for hook in webhooks.as_array_mut().unwrap() {
            hook["clientConfig"]["caBundle"] = bundle.clone();
        }
        patch(&hooks, "virt-api-validator", json!({"webhooks": webhooks})).await;
    };
    set(other.into()).await;
    let message = refused(create(&types, small("two")).await.unwrap_err());
    assert!(
        message.contains("certificate signed by unknown authority"),
        "{message}"
    );
    set(right).await;
    create(&types, small("two")).await.unwrap();

    let deployments = within(&client, "apps", "Deployment");
    patch(&deployments, "virt-api", json!({"spec": {"replicas": 0}})).await;
    until(&deployments, "virt-api", |api| {
        api.data["status"]["readyReplicas"].is_null()
    })
    .await;
    let message = refused(create(&types, small("three")).await.unwrap_err());
    assert!(
        message.contains("no endpoints available for service \"virt-api\""),
        "{message}"
    );
    let services = cluster_api(&client, "apiregistration.k8s.io", "v1", "APIService");
    until(&services, "v1.subresources.kubevirt.io", |service| {
        service.data["status"]["conditions"][0]["reason"] == "MissingEndpoints"
    })
    .await;
    let start = Request::put(
        "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/web/start",
    );
    let start = start.body(Vec::new()).unwrap();
    let kube::Error::Api(status) = client.request_text(start).await.unwrap_err() else {
        panic!("an answer of the server")
    };
    assert_eq!(status.code, 503);
}

#[tokio::test(start_paused = true)]
async fn an_operator_answers_for_its_service_from_inside_the_process() {
    let cluster = installed().await;
    let client = cluster.client();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kubevirts.kubevirt.io"},
        "spec": {
            "group": "kubevirt.io", "scope": "Namespaced",
            "names": {"kind": "KubeVirt", "listKind": "KubeVirtList", "plural": "kubevirts", "singular": "kubevirt"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    });
    sandbox::apply(&client, definition).await.unwrap();
    let definitions = cluster_api(
        &client,
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    );
    until(&definitions, "kubevirts.kubevirt.io", |definition| {
        definition.data["status"]["conditions"].is_array()
    })
    .await;
    let kubevirts = within(&client, "kubevirt.io", "KubeVirt");
    let one =
        json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "one"}});
    let message = refused(create(&kubevirts, one.clone()).await.unwrap_err());
    assert!(message.contains("no endpoints available"), "{message}");

    let service = "kubevirt-operator-webhook";
    let refuse = Backend::new(|path, review| {
        let allowed = path != "/kubevirt-validate-create";
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {
                "uid": review["request"]["uid"], "allowed": allowed,
                "status": {"code": 403, "message": "one is enough"},
            },
        });
        Box::pin(async move { Ok(answer) })
    });
    cluster
        .server()
        .answer_for_service(NAMESPACE, service, refuse);
    let kube::Error::Api(status) = create(&kubevirts, one.clone()).await.unwrap_err() else {
        panic!("an answer of the server")
    };
    assert_eq!(status.code, 403);
    assert!(
        status.message.contains("one is enough"),
        "{}",
        status.message
    );

    cluster
        .server()
        .answer_for_service(NAMESPACE, service, Backend::admitting());
    create(&kubevirts, one.clone()).await.unwrap();
    cluster.server().forget_service(NAMESPACE, service);
    let mut two = one;
    two["metadata"]["name"] = "two".into();
    refused(create(&kubevirts, two).await.unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn a_canary_whose_image_crashes_holds_up_the_rollout_until_the_old_one_is_back() {
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
    let held = sets.get("virt-handler").await.unwrap();
    assert_eq!(held.data["status"]["updatedNumberScheduled"], 1);
    assert_eq!(held.data["status"]["numberReady"], 2);
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
    let vmis = api(&client, "kubevirt.io", "v1", "VirtualMachineInstance");
    let web = vmis.get("web").await.unwrap();
    assert_eq!(web.data["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_follows_its_share_of_unavailable_pods_while_it_rolls() {
    let setup = Setup {
        nodes: 20,
        ..Setup::seeded(3)
    };
    let cluster = Cluster::start(setup, None).await.unwrap();
    let client = cluster.client();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "DaemonSet"));
    let sets: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
    let set = |image: &str, most: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": most}},
                "template": {
                    "metadata": {"labels": {"app": "agent"}},
                    "spec": {"containers": [{"name": "c", "image": image, "readinessProbe": {"httpGet": {"port": 1}}}]},
                },
            },
        })
    };
    create(&sets, set("registry.example/agent:1", 1.into()))
        .await
        .unwrap();
    until(&sets, "agent", |set| {
        set.data["status"]["numberReady"] == 20
    })
    .await;

    let fault = json!({"metadata": {"annotations": {
        "sandbox.vitistack.io/fail": "NeverReady=agent:2",
    }}});
    patch(&sets, "agent", fault).await;
    patch(&sets, "agent", set("registry.example/agent:2", 1.into())).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let status = |set: &DynamicObject| set.data["status"].clone();
    assert_eq!(
        status(&sets.get("agent").await.unwrap())["updatedNumberScheduled"],
        1
    );
    patch(
        &sets,
        "agent",
        set("registry.example/agent:2", "10%".into()),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let held = status(&sets.get("agent").await.unwrap());
    assert_eq!(held["updatedNumberScheduled"], 2);
    assert_eq!(held["numberReady"], 18);

    let healed = json!({"metadata": {"annotations": {"sandbox.vitistack.io/fail": null}}});
    patch(&sets, "agent", healed).await;
    until(&sets, "agent", |set| {
        status(set)["numberReady"] == 20 && status(set)["updatedNumberScheduled"] == 20
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_says_when_its_objects_are_gone_and_waits_for_its_own_finalizers() {
    let cluster = Cluster::start(Setup::seeded(1), None).await.unwrap();
    let client = cluster.client();
    let definitions = cluster_api(
        &client,
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    );
    let name = "virtualmachinepreferences.instancetype.kubevirt.io";
    let held = json!({"metadata": {"finalizers": ["kubevirt.io/virtOperatorFinalizer"]}});
    patch(&definitions, name, held).await;
    let preferences = api(
        &client,
        "instancetype.kubevirt.io",
        "v1beta1",
        "VirtualMachinePreference",
    );
    let object = json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachinePreference",
        "metadata": {"name": "one", "finalizers": ["example.com/hold"]}, "spec": {},
    });
    create(&preferences, object).await.unwrap();
    definitions
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    let terminating = |definition: &DynamicObject| {
        let conditions = definition.data["status"]["conditions"].as_array().cloned();
        let found = conditions
            .unwrap_or_default()
            .into_iter()
            .find(|condition| condition["type"] == "Terminating");
        found.map(|condition| (condition["status"].clone(), condition["reason"].clone()))
    };
    let in_progress = (json!("True"), json!("InstanceDeletionInProgress"));
    until(&definitions, name, |one| {
        terminating(one) == Some(in_progress.clone())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(
        preferences
            .get("one")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );

    patch(
        &preferences,
        "one",
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    let completed = (json!("False"), json!("InstanceDeletionCompleted"));
    until(&definitions, name, |one| {
        terminating(one) == Some(completed.clone())
    })
    .await;
    patch(
        &definitions,
        name,
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert!(definitions.get_opt(name).await.unwrap().is_none());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(preferences.list(&ListParams::default()).await.is_err());
}
