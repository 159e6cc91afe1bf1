//! Tests of Deployments and DaemonSets.

use rstest::rstest;
use serde_json::{Value, json};

use super::{Handlers, world};
use crate::kubevirt::desired::{DesiredError, with_max_unavailable};

fn strings(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap())
        .collect()
}

#[test]
fn objects_and_pods_have_annotations_of_their_deployment() {
    let desired = world(json!({})).desired();
    for object in &desired.objects {
        let value = object.value();
        assert_eq!(
            value["metadata"]["labels"]["app.kubernetes.io/managed-by"],
            "virt-operator"
        );
        assert_eq!(
            value["metadata"]["labels"]["app.kubernetes.io/component"],
            "kubevirt"
        );
        let annotations = &value["metadata"]["annotations"];
        assert_eq!(
            annotations["kubevirt.io/install-strategy-version"],
            "v1.9.0"
        );
        assert_eq!(
            annotations["kubevirt.io/install-strategy-registry"],
            "registry.example/kubevirt"
        );
        assert_eq!(
            annotations["kubevirt.io/install-strategy-identifier"],
            "0123"
        );
        assert_eq!(annotations["kubevirt.io/generation"], "7");
    }
    let pods = &desired.get("Deployment", "virt-api")["spec"]["template"]["metadata"];
    assert_eq!(
        pods["annotations"]["kubevirt.io/install-strategy-identifier"],
        "0123"
    );
    assert_eq!(pods["annotations"].get("kubevirt.io/generation"), None);
    assert_eq!(
        pods["labels"]["app.kubernetes.io/managed-by"],
        "virt-operator"
    );
    assert_eq!(pods["labels"]["kubevirt.io"], "virt-api");
}

#[test]
fn product_labels_are_on_objects_and_pods() {
    let spec = json!({"productName": "cloud", "productVersion": "2.0", "productComponent": "virt"});
    let api = world(spec).desired().get("Deployment", "virt-api");
    for labels in [
        &api["metadata"]["labels"],
        &api["spec"]["template"]["metadata"]["labels"],
    ] {
        assert_eq!(labels["app.kubernetes.io/part-of"], "cloud");
        assert_eq!(labels["app.kubernetes.io/version"], "2.0");
        assert_eq!(labels["app.kubernetes.io/component"], "virt");
    }
    let desired = world(json!({})).desired();
    let labels = desired.get("Deployment", "virt-api")["metadata"]["labels"].clone();
    assert_eq!(labels["app.kubernetes.io/version"], "v1.9.0");
    assert_eq!(labels.get("app.kubernetes.io/part-of"), None);
}

#[rstest]
#[case("no spaces")]
#[case("-a")]
#[case("a.")]
#[case("ä")]
#[case("0123456789012345678901234567890123456789012345678901234567890123")]
fn notes_product_names_that_are_not_label_values(#[case] name: &str) {
    let desired = world(json!({"productName": name, "productComponent": name})).desired();
    let labels = &desired.get("Service", "virt-api")["metadata"]["labels"];
    assert_eq!(labels.get("app.kubernetes.io/part-of"), None);
    assert_eq!(labels["app.kubernetes.io/component"], "kubevirt");
    assert!(
        desired.notes[0].starts_with("spec.productComponent is ignored"),
        "{:?}",
        desired.notes
    );
    assert!(
        desired.notes[1].starts_with("spec.productName is ignored"),
        "{:?}",
        desired.notes
    );
}

#[rstest]
#[case::none_yet(0, 2)]
#[case::one(1, 1)]
#[case::few(2, 2)]
#[case::more(29, 2)]
#[case::thirty(30, 3)]
#[case::many(100, 10)]
fn the_replicas_of_virt_api_follow_the_nodes(#[case] nodes: usize, #[case] replicas: i64) {
    let mut world = world(json!({}));
    world.nodes = nodes;
    let desired = world.desired();
    assert_eq!(
        desired.get("Deployment", "virt-api")["spec"]["replicas"],
        replicas
    );
    assert_eq!(
        desired.get("Deployment", "virt-controller")["spec"]["replicas"],
        2
    );
}

#[rstest]
#[case("json", r#"[{"op": "replace", "path": "/spec/replicas", "value": 4}]"#)]
#[case("merge", r#"{"spec": {"replicas": 4}}"#)]
#[case("strategic", r#"{"spec": {"replicas": 4}}"#)]
fn a_patch_of_the_replicas_of_virt_api_is_kept(#[case] type_: &str, #[case] patch: &str) {
    let patch = json!({
        "resourceType": "Deployment", "resourceName": "virt-api", "type": type_, "patch": patch,
    });
    let mut world = world(json!({"customizeComponents": {"patches": [patch]}}));
    world.nodes = 100;
    let desired = world.desired();
    assert_eq!(desired.get("Deployment", "virt-api")["spec"]["replicas"], 4);
    assert_eq!(
        desired.get("PodDisruptionBudget", "virt-api-pdb")["spec"]["minAvailable"],
        3
    );
}

#[test]
fn infra_replicas_count_for_all_but_virt_template() {
    let mut world = world(json!({"infra": {"replicas": 5}}));
    world.nodes = 1;
    let desired = world.desired();
    for (name, replicas) in [
        ("virt-api", 5),
        ("virt-controller", 5),
        ("virt-template-apiserver", 1),
    ] {
        assert_eq!(
            desired.get("Deployment", name)["spec"]["replicas"],
            replicas,
            "{name}"
        );
    }
    assert_eq!(
        desired.get("PodDisruptionBudget", "virt-controller-pdb")["spec"]["minAvailable"],
        4
    );
}

#[test]
fn a_budget_follows_its_deployment_and_keeps_all_pods_but_one() {
    let desired = world(json!({})).desired();
    let at = desired
        .objects
        .iter()
        .position(|object| &*object.id.name == "virt-controller-pdb");
    let before = &desired.objects[at.unwrap() - 1];
    assert_eq!(before.id.to_string(), "Deployment kubevirt/virt-controller");
    let budget = desired.get("PodDisruptionBudget", "virt-controller-pdb");
    assert_eq!(budget["apiVersion"], "policy/v1");
    assert_eq!(budget["metadata"]["namespace"], "kubevirt");
    assert_eq!(
        budget["metadata"]["labels"]["kubevirt.io"],
        "virt-controller-pdb"
    );
    assert_eq!(
        budget["spec"],
        json!({"minAvailable": 1, "selector": {"matchLabels": {"kubevirt.io": "virt-controller"}}}),
    );
}

#[test]
fn a_deployment_with_one_pod_has_no_budget() {
    let desired = world(json!({"infra": {"replicas": 1}})).desired();
    assert_eq!(desired.find("PodDisruptionBudget", "virt-api-pdb"), None);
    assert_eq!(
        desired.find("PodDisruptionBudget", "virt-template-apiserver-pdb"),
        None
    );
    assert_eq!(
        desired.find("PodDisruptionBudget", "virt-handler-pdb"),
        None
    );
}

#[test]
fn deployments_are_placed_as_infra_and_the_handler_as_workloads() {
    let desired = world(json!({
        "infra": {"nodePlacement": {"nodeSelector": {"role": "infra"}}},
        "workloads": {"nodePlacement": {"tolerations": [{"key": "vms", "operator": "Exists"}]}},
    }))
    .desired();
    let api = &desired.get("Deployment", "virt-api")["spec"]["template"]["spec"];
    assert_eq!(
        api["nodeSelector"],
        json!({"kubernetes.io/os": "linux", "role": "infra"})
    );
    assert_eq!(api.get("affinity"), None);
    let handler = &desired.get("DaemonSet", "virt-handler")["spec"]["template"]["spec"];
    assert_eq!(
        handler["nodeSelector"],
        json!({"kubernetes.io/os": "linux"})
    );
    assert_eq!(
        handler["tolerations"],
        json!([{"key": "vms", "operator": "Exists"}])
    );
}

#[test]
fn without_a_placement_deployments_run_on_the_control_plane_and_the_handler_anywhere() {
    let desired = world(json!({})).desired();
    let api = &desired.get("Deployment", "virt-api")["spec"]["template"]["spec"];
    let required =
        &api["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(required["nodeSelectorTerms"].as_array().unwrap().len(), 2);
    assert_eq!(api["tolerations"].as_array().unwrap().len(), 3);
    let handler = &desired.get("DaemonSet", "virt-handler")["spec"]["template"]["spec"];
    assert_eq!(handler.get("affinity"), None);
}

#[test]
fn the_number_of_devices_is_set_and_unset() {
    let limited = world(json!({"configuration": {"virtualMachineInstancesPerNode": 10}})).desired();
    let handler = limited.get("DaemonSet", "virt-handler");
    let command = &handler["spec"]["template"]["spec"]["containers"][0]["command"];
    assert_eq!(strings(command), ["virt-handler", "--max-devices", "10"]);
    let handler = world(json!({})).desired().get("DaemonSet", "virt-handler");
    let command = &handler["spec"]["template"]["spec"]["containers"][0]["command"];
    assert_eq!(strings(command), ["virt-handler"]);
    let error =
        world(json!({"configuration": {"virtualMachineInstancesPerNode": "ten"}})).try_desired();
    assert_eq!(
        error.unwrap_err().to_string(),
        "spec.configuration.virtualMachineInstancesPerNode must be a whole number",
    );
}

#[rstest]
#[case::new_installation(Handlers::None, true)]
#[case::every_node_has_the_new_one(Handlers::Current, true)]
#[case::some_nodes_have_an_old_one(Handlers::Mixed, false)]
fn migrations_use_a_separate_certificate_once_all_handlers_support_it(
    #[case] handlers: Handlers,
    #[case] on: bool,
) {
    let mut world = world(json!({}));
    world.handlers = handlers;
    let handler = world.desired().get("DaemonSet", "virt-handler");
    let pod = &handler["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let args: &[_] = if on {
        &["--port", "8443", "--migration-cn-types", "migration"]
    } else {
        &["--port", "8443"]
    };
    assert_eq!(strings(&container["args"]), args);
    let of_old = if on { 1 } else { 2 };
    assert_eq!(pod["volumes"].as_array().unwrap().len(), of_old);
    assert_eq!(container["volumeMounts"].as_array().unwrap().len(), of_old);
    let last = pod["volumes"].as_array().unwrap().last().unwrap();
    assert_eq!(last["name"], "kubevirt-virt-handler-server-certs");
}

#[rstest]
#[case::by_default(json!({}), &["--tls-min-version", "VersionTLS12"])]
#[case::as_configured(
    json!({"tlsConfiguration": {"minTLSVersion": "VersionTLS13"}}),
    &["--tls-min-version", "VersionTLS13"]
)]
#[case::with_ciphers(
    json!({"tlsConfiguration": {"minTLSVersion": "VersionTLS12", "ciphers": ["A", "B"]}}),
    &["--tls-cipher-suites", "A,B", "--tls-min-version", "VersionTLS12"]
)]
#[case::with_ciphers_only(
    json!({"tlsConfiguration": {"ciphers": ["A"]}}),
    &["--tls-cipher-suites", "A"]
)]
fn only_virt_template_gets_tls_flags(#[case] configuration: Value, #[case] added: &[&str]) {
    let desired = world(json!({"configuration": configuration})).desired();
    let args = |name: &str| {
        let value = desired.get("Deployment", name);
        value["spec"]["template"]["spec"]["containers"][0]["args"].clone()
    };
    assert_eq!(
        strings(&args("virt-template-apiserver")),
        [&["--secure-port=8443"], added].concat()
    );
    assert_eq!(strings(&args("virt-api")), ["--port", "8443"]);
}

#[test]
fn image_pull_secrets_reach_every_pod_once() {
    let mut world = world(json!({"imagePullSecrets": [{"name": "one"}, {"name": "two"}]}));
    let pull = "spec:\n      hostPID: true\n      imagePullSecrets: [{name: two}]";
    let text = super::STRATEGY.replace("spec:\n      hostPID: true", pull);
    world.strategy = crate::kubevirt::strategy::Strategy::parse(&text).unwrap();
    let desired = world.desired();
    let secrets = |kind: &str, name: &str| {
        desired.get(kind, name)["spec"]["template"]["spec"]["imagePullSecrets"].clone()
    };
    assert_eq!(
        secrets("Deployment", "virt-api"),
        json!([{"name": "one"}, {"name": "two"}])
    );
    assert_eq!(
        secrets("DaemonSet", "virt-handler"),
        json!([{"name": "two"}, {"name": "one"}])
    );
}

#[test]
fn max_unavailable_of_a_handler_is_set() {
    let desired = world(json!({})).desired();
    let handler = desired.find("DaemonSet", "virt-handler").unwrap();
    let fast = with_max_unavailable(handler, &json!("10%")).unwrap();
    assert_eq!(
        fast.value()["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}),
    );
    assert_ne!(fast.fingerprint, handler.fingerprint);
}

#[test]
fn a_strategy_for_another_namespace_is_refused() {
    let mut world = world(json!({}));
    let text = super::STRATEGY.replace("namespace: kubevirt", "namespace: elsewhere");
    world.strategy = crate::kubevirt::strategy::Strategy::parse(&text).unwrap();
    let error = world.try_desired().unwrap_err();
    assert!(matches!(error, DesiredError::Namespace { .. }));
    assert_eq!(
        error.to_string(),
        "the install strategy is for namespace \"elsewhere\" (ServiceAccount \
         elsewhere/kubevirt-apiserver), but the KubeVirt resource is in \"kubevirt\": use a \
         strategy that was dumped for that namespace",
    );
}

#[test]
fn a_malformed_workload_is_refused_with_its_field() {
    let mut world = world(json!({}));
    let text = super::STRATEGY.replace(
        "tolerations:\n      - {key: CriticalAddonsOnly, operator: Exists}",
        "tolerations: all",
    );
    world.strategy = crate::kubevirt::strategy::Strategy::parse(&text).unwrap();
    let error = world.try_desired().unwrap_err().to_string();
    assert!(
        error.starts_with("Deployment kubevirt/virt-api: spec.template.spec: tolerations "),
        "{error}"
    );
}
