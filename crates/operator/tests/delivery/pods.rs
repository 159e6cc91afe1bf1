//! Check of pods against the restricted Pod Security Standard.

use serde_json::{Value, json};

use crate::objects::{Objects, containers, pod};

/// Violations of the restricted standard in a pod.
pub fn violations(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let spec = &pod["spec"];
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec[field] == true {
            found.push(format!("{field} is true"));
        }
    }
    let allowed = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    for volume in spec["volumes"].as_array().into_iter().flatten() {
        let types = volume.as_object().unwrap().keys();
        for kind in types.filter(|key| *key != "name" && !allowed.contains(&key.as_str())) {
            found.push(format!("volume {} is a {kind}", volume["name"]));
        }
    }
    for container in containers(pod) {
        let context = &container["securityContext"];
        let either = |field: &str| {
            let own = &context[field];
            let pods = &spec["securityContext"][field];
            if own.is_null() { pods } else { own }.clone()
        };
        let mut must = |holds: bool, what: &str| {
            if !holds {
                found.push(format!("container {}: {what}", container["name"]));
            }
        };
        must(context["privileged"] != true, "privileged");
        must(
            context["allowPrivilegeEscalation"] == false,
            "allowPrivilegeEscalation is not false",
        );
        must(
            context["capabilities"] == json!({ "drop": ["ALL"] }),
            "capabilities are not dropped",
        );
        must(either("runAsNonRoot") == true, "runAsNonRoot is not true");
        must(either("runAsUser") != 0, "runAsUser is 0");
        let seccomp = &either("seccompProfile")["type"];
        must(
            seccomp == "RuntimeDefault" || seccomp == "Localhost",
            "no seccompProfile",
        );
        must(either("procMount").is_null(), "procMount is set");
        let ports = container["ports"].as_array().into_iter().flatten();
        must(
            ports.into_iter().all(|port| port["hostPort"].is_null()),
            "a hostPort",
        );
    }
    found
}

/// Panics if pods violate the restricted standard, or this project's stricter rules.
pub fn assert_restricted(objects: &Objects) {
    let mut count = 0;
    for (key, object) in &objects.0 {
        let Some(pod) = pod(object) else { continue };
        count += 1;
        assert_eq!(violations(pod), [""; 0], "{key}");
        for container in containers(pod) {
            let context = &container["securityContext"];
            assert_eq!(context["readOnlyRootFilesystem"], true, "{key}");
            for probe in ["livenessProbe", "readinessProbe"] {
                assert!(container[probe].is_object(), "{key}: {probe}");
            }
            for kind in ["limits", "requests"] {
                assert!(container["resources"][kind].is_object(), "{key}: {kind}");
            }
        }
    }
    assert!(count > 0, "no pods");
}

#[test]
fn violations_of_the_restricted_standard_are_detected() {
    let good = json!({ "spec": {
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [{ "name": "a", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
        }}],
    }});
    assert_eq!(violations(&good), [""; 0]);
    for (path, value) in [
        ("/spec/hostPID", json!(true)),
        (
            "/spec/volumes",
            json!([{ "name": "v", "hostPath": { "path": "/" } }]),
        ),
        ("/spec/securityContext/runAsNonRoot", json!(false)),
        (
            "/spec/securityContext/seccompProfile/type",
            json!("Unconfined"),
        ),
        ("/spec/containers/0/securityContext/runAsUser", json!(0)),
        ("/spec/containers/0/securityContext/privileged", json!(true)),
        (
            "/spec/containers/0/securityContext/allowPrivilegeEscalation",
            json!(true),
        ),
        (
            "/spec/containers/0/securityContext/capabilities/add",
            json!(["NET_ADMIN"]),
        ),
        ("/spec/containers/0/ports", json!([{ "hostPort": 1 }])),
    ] {
        let mut bad = good.clone();
        let (parent, field) = path.rsplit_once('/').unwrap();
        let parent = bad.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        parent.insert(field.to_owned(), value);
        assert_eq!(violations(&bad).len(), 1, "{path}");
    }
}
