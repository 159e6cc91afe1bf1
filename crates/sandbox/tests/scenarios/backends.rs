//! Backends of Services: pods, or handlers inside the process.

use http::Request;
use sandbox::Backend;
use serde_json::{Value, json};

use super::{
    cluster_api, create,
    installed::{NAMESPACE, certificates, installed, patch, within},
    until,
};

fn refused(error: kube::Error) -> String {
    let kube::Error::Api(status) = error else {
        panic!("an answer of the server")
    };
    assert_eq!(status.code, 500, "{}", status.message);
    status.message
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
async fn an_operator_serves_its_service_from_inside_the_process() {
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
