//! Authorization.

use crate::kubectl::{Kubectl, both, is_too_old_for};

#[test]
fn rights_are_reviewed_and_enforced() {
    let kubectl = Kubectl::new("access-rights");
    let robot = "--as=system:serviceaccount:access-rights:robot";
    kubectl.ok("create serviceaccount robot");
    kubectl.ok("create role reader --verb=get,list --resource=configmaps");
    kubectl.ok("create rolebinding reader --role=reader --serviceaccount=access-rights:robot");
    assert_eq!(kubectl.ok("auth can-i create pods"), "yes\n");
    assert_eq!(
        kubectl.ok(&format!("auth can-i list configmaps {robot}")),
        "yes\n"
    );
    let output = kubectl.run(&format!("auth can-i delete configmaps {robot}"));
    assert_eq!(output.status.code(), Some(1));
    assert!(both(&output).starts_with("no"), "{}", both(&output));
    let list = kubectl.ok(&format!("auth can-i --list {robot}"));
    let configmaps = list
        .lines()
        .find(|line| line.starts_with("configmaps "))
        .unwrap();
    assert!(configmaps.contains("[get list]"), "{list}");
    kubectl.ok(&format!("get configmaps {robot}"));
    let printed = kubectl.fails(&format!("create configmap new {robot}"));
    assert!(
        printed.contains(
            "configmaps is forbidden: User \"system:serviceaccount:access-rights:robot\" cannot \
             create resource \"configmaps\" in API group \"\" in the namespace \"access-rights\""
        ),
        "{printed}"
    );
    let printed = kubectl.fails(&format!("get nodes {robot}"));
    assert!(
        printed.contains("cannot list resource \"nodes\" in API group \"\" at the cluster scope"),
        "{printed}"
    );
}

#[test]
fn kubectl_auth_whoami_works() {
    if is_too_old_for("kubectl auth whoami") {
        return;
    }
    let kubectl = Kubectl::new("access-whoami");
    let text = kubectl.ok("auth whoami");
    assert!(
        text.contains("kubernetes-admin") && text.contains("system:masters"),
        "{text}"
    );
    let text =
        kubectl.ok("auth whoami --as=jane --as-group=staff -o jsonpath='{.status.userInfo}'");
    assert!(text.contains("jane") && text.contains("staff"), "{text}");
}
