//! Deployments and their pods.

use crate::kubectl::Kubectl;

#[test]
fn a_deployment_is_rolled_out_and_back() {
    let kubectl = Kubectl::new("work-rollout");
    let rolled_out = || {
        let printed = kubectl.ok("rollout status deployment/web --timeout=60s");
        assert!(printed.contains("successfully rolled out"), "{printed}");
    };
    let image = || kubectl.value("deployment/web", ".spec.template.spec.containers[0].image");
    kubectl.ok("create deployment web --image=nginx:1 --replicas=3");
    rolled_out();
    kubectl.ok("set image deployment/web nginx=nginx:2");
    rolled_out();
    assert_eq!(image(), "nginx:2");
    let history = kubectl.ok("rollout history deployment/web");
    let revisions = history.lines().filter(|line| line.starts_with(['1', '2']));
    assert_eq!(revisions.count(), 2, "{history}");
    kubectl.ok("rollout undo deployment/web");
    rolled_out();
    assert_eq!(image(), "nginx:1");
    kubectl.ok("rollout restart deployment/web");
    rolled_out();
    let pods = "pods -l app=web --field-selector=status.phase=Running";
    kubectl.ok("rollout pause deployment/web");
    kubectl.ok("rollout resume deployment/web");
    assert_eq!(
        kubectl.value(pods, ".items[*].spec.containers[0].image"),
        "nginx:1 nginx:1 nginx:1"
    );
}

#[test]
fn a_deployment_is_scaled() {
    let kubectl = Kubectl::new("work-scale");
    kubectl.ok("create deployment web --image=nginx:1 --replicas=1");
    kubectl.ok("scale deployment web --replicas=3");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    assert_eq!(
        kubectl.value("deployment/web", ".status.readyReplicas"),
        "3"
    );
    let printed = kubectl.fails("scale deployment web --current-replicas=7 --replicas=1");
    assert!(
        printed.contains("Expected replicas to be 7, was 3"),
        "{printed}"
    );
    kubectl.ok("scale deployment web --replicas=0");
    kubectl.until_deleted("pods -l app=web");
    kubectl.ok("wait deployment/web --for=condition=Available --timeout=60s");
}

#[test]
fn kubectl_get_all_lists_a_namespace() {
    let kubectl = Kubectl::new("work-all");
    kubectl.ok("create deployment web --image=nginx:1");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    kubectl.ok("expose deployment web --port=80");
    let all = kubectl.ok("get all -o name");
    for kind in [
        "pod/web-",
        "service/web",
        "deployment.apps/web",
        "replicaset.apps/web-",
    ] {
        assert!(all.contains(kind), "{kind} in {all}");
    }
}

#[test]
fn commands_that_need_a_running_container_are_refused_with_a_reason() {
    let kubectl = Kubectl::new("work-inside");
    kubectl.ok("run web --image=nginx:1");
    kubectl.ok("wait pod/web --for=condition=Ready --timeout=60s");
    for words in [
        "logs web",
        "logs -f web",
        "exec web -- ls",
        "attach web",
        "port-forward pod/web :80",
    ] {
        let printed = kubectl.fails(words);
        assert!(
            printed.contains("the sandbox does not implement"),
            "{words}: {printed}"
        );
        assert!(
            printed.contains("it runs no containers"),
            "{words}: {printed}"
        );
    }
}

#[test]
fn a_failing_rollout_is_reported() {
    let kubectl = Kubectl::new("work-fails");
    let deployment = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web",
        "annotations": {"sandbox.vitistack.io/fail": "ImagePullBackOff"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "none:1"}]}}}}"#;
    kubectl.ok_with_input(deployment, "create -f -");
    kubectl
        .follow("get pods --watch")
        .until(&["web-", "ImagePullBackOff"]);
    let printed = kubectl.fails("rollout status deployment/web --timeout=1s");
    assert!(
        printed.contains("0 of 1 updated replicas are available"),
        "{printed}"
    );
}
