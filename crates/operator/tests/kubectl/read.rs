//! `kubectl get`, `describe`, `explain` and discovery.

use crate::kubectl::{Kubectl, is_too_old_for};

#[test]
fn all_output_formats_work() {
    if is_too_old_for("hiding managed fields") {
        return;
    }
    let kubectl = Kubectl::new("read-forms");
    kubectl.ok("create configmap one --from-literal=key=value");
    kubectl.ok("label configmap one tier=front");
    let table = kubectl.ok("get configmap one --show-labels");
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "DATA", "AGE", "LABELS"]);
    assert_eq!(lines[1][..2], ["one", "1"]);
    assert_eq!(lines[1][3], "tier=front");
    assert_eq!(kubectl.ok("get configmap one -o name"), "configmap/one\n");
    let yaml = kubectl.ok("get configmap one -o yaml");
    assert!(
        yaml.contains("key: value") && !yaml.contains("managedFields"),
        "{yaml}"
    );
    let json = kubectl.ok("get configmap one -o json --show-managed-fields");
    assert!(json.contains("\"manager\": \"kubectl-create\""), "{json}");
    assert_eq!(kubectl.value("configmap/one", ".data.key"), "value");
    let columns = "get configmap -l tier=front -o custom-columns=N:.metadata.name,K:.data.key";
    let columns = kubectl.ok(columns);
    assert_eq!(
        columns.split_whitespace().collect::<Vec<_>>(),
        ["N", "K", "one", "value"]
    );
    let template = kubectl.ok("get configmap one -o go-template={{.data.key}}");
    assert_eq!(template, "value");
    let selected = kubectl.ok("get configmap --field-selector=metadata.name=one -o name");
    assert_eq!(selected, "configmap/one\n");
    assert!(kubectl.ok("get configmap -A").contains("read-forms"));
    let sorted = kubectl.ok("get configmap --sort-by=.metadata.name -o name --chunk-size=1");
    assert_eq!(sorted, "configmap/kube-root-ca.crt\nconfigmap/one\n");
}

#[test]
fn wide_tables_have_more_columns() {
    let kubectl = Kubectl::new("read-wide");
    let nodes = kubectl.ok("get nodes -o wide");
    assert!(nodes.contains("CONTAINER-RUNTIME"), "{nodes}");
    let narrow = kubectl.ok("get nodes");
    assert!(!narrow.contains("CONTAINER-RUNTIME"), "{narrow}");
    let classes = kubectl.ok("get storageclasses");
    assert!(classes.contains("standard (default)"), "{classes}");
}

#[test]
fn missing_objects_are_reported_as_by_a_real_server() {
    let kubectl = Kubectl::new("read-nothing");
    let printed = kubectl.fails("get pod nope");
    assert_eq!(
        printed,
        "Error from server (NotFound): pods \"nope\" not found\n"
    );
    let printed = kubectl.fails("get nothings");
    assert_eq!(
        printed,
        "error: the server doesn't have a resource type \"nothings\"\n"
    );
    let output = kubectl.run("get pods");
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(printed, "No resources found in read-nothing namespace.\n");
}

#[test]
fn kubectl_get_watch_shows_changes() {
    let kubectl = Kubectl::new("read-watch");
    kubectl.ok("create configmap first");
    let mut watch = kubectl.follow("get configmaps --watch --output-watch-events");
    watch.until(&["ADDED", "first"]);
    kubectl.ok("create configmap second");
    watch.until(&["ADDED", "second"]);
    kubectl.ok("label configmap second reviewed=yes");
    watch.until(&["MODIFIED", "second"]);
    kubectl.ok("delete configmap second");
    watch.until(&["DELETED", "second"]);
}

#[test]
fn describe_shows_events() {
    let kubectl = Kubectl::new("read-describe");
    kubectl.ok("run one --image=nginx:1");
    kubectl.ok("wait pod/one --for=condition=Ready --timeout=60s");
    // Events are written in parallel with the status.
    kubectl
        .follow("get events --watch")
        .until(&["pod/one", "Started container one"]);
    let text = kubectl.ok("describe pod one");
    assert!(
        text.contains("Successfully assigned read-describe/one to node-"),
        "{text}"
    );
    assert!(
        text.contains("default-scheduler") && text.contains("kubelet"),
        "{text}"
    );
    let text = kubectl.ok("get events --field-selector=involvedObject.name=one,reason=Started");
    assert!(text.contains("Started container one"), "{text}");
    let text = kubectl.ok("describe node node-1");
    assert!(
        text.contains("KubeletReady") && text.contains("Allocatable:"),
        "{text}"
    );
    for kind in [
        "namespace",
        "storageclass",
        "serviceaccount/default",
        "crd/machines.vitistack.io",
    ] {
        kubectl.ok(&format!("describe {kind}"));
    }
}

#[test]
fn discovery_lists_the_served_resources() {
    let kubectl = Kubectl::new("read-discovery");
    let resources = kubectl.ok("api-resources");
    for line in [
        ["machines", "m", "vitistack.io/v1alpha1", "true", "Machine"],
        ["deployments", "deploy", "apps/v1", "true", "Deployment"],
        [
            "virtualmachines",
            "vm,vms",
            "kubevirt.io/v1",
            "true",
            "VirtualMachine",
        ],
    ] {
        let found = resources
            .lines()
            .any(|shown| shown.split_whitespace().eq(line));
        assert!(found, "{line:?} in {resources}");
    }
    let versions = kubectl.ok("api-versions");
    for version in [
        "v1",
        "apps/v1",
        "vitistack.io/v1alpha1",
        "subresources.kubevirt.io/v1",
    ] {
        assert!(
            versions.lines().any(|line| line == version),
            "{version} in {versions}"
        );
    }
    let info = kubectl.ok("cluster-info");
    assert!(info.contains("https://127.0.0.1:"), "{info}");
    let versions = kubectl.ok("version -o json");
    assert!(versions.contains("kubevirt-operator-sandbox"), "{versions}");
    assert_eq!(kubectl.ok("get --raw /healthz"), "ok");
    let printed = kubectl.fails("top nodes");
    assert!(printed.contains("Metrics API not available"), "{printed}");
}

#[test]
fn kubectl_explain_describes_fields() {
    if is_too_old_for("OpenAPI v3") {
        return;
    }
    let kubectl = Kubectl::new("read-explain");
    let text = kubectl.ok("explain machine.spec");
    assert!(
        text.contains("powerState\t<string>") && text.contains("DESCRIPTION:"),
        "{text}"
    );
    let text = kubectl.ok("explain pod.spec.containers");
    assert!(
        text.contains("image\t<string>") && text.contains("-required-"),
        "{text}"
    );
    let text = kubectl.ok("explain deployment.spec --recursive");
    assert!(
        text.contains("rollingUpdate\t<RollingUpdateDeployment>"),
        "{text}"
    );
    let printed = kubectl.fails("explain pod.spec.nothing");
    assert!(
        printed.contains("field \"nothing\" does not exist"),
        "{printed}"
    );
}
