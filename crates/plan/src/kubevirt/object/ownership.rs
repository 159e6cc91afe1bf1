//! Fields that KubeVirt's virt-operator owns and that are no longer wanted.
//!
//! An apply removes a field only if no other field manager owns it. The entry of virt-operator owns all
//! fields that it sent, and all defaults that the API server added. A default would return at once, so it
//! does not justify a take-over of the entry, which needs an extra write.

use serde_json::{Map, Value};

/// Whether a set of owned fields (`FieldsV1`) has one that is not wanted and not a default.
pub(super) fn owns_more(
    kind: &str,
    fields: &Value,
    live: Option<&Value>,
    wanted: Option<&Value>,
) -> bool {
    let Some(fields) = fields.as_object() else {
        // A set that cannot be parsed may contain anything.
        return true;
    };
    fields.iter().any(|(path, inner)| {
        let is_leaf = inner.as_object().is_some_and(Map::is_empty);
        let (live, wanted) = match path.split_once(':') {
            None if path == "." => return false,
            Some(("f", name)) => {
                let live = live.and_then(|live| live.get(name));
                let wanted = wanted.and_then(|wanted| wanted.get(name));
                if is_leaf {
                    let is_default = || live.is_some_and(|live| is_default(kind, name, live));
                    return wanted.is_none() && !is_default();
                }
                (live, wanted)
            }
            Some(("k", keys)) => {
                let keys: Value = serde_json::from_str(keys).unwrap_or_default();
                let Some(wanted) = items(wanted).find(|item| has_keys(item, &keys)) else {
                    return true;
                };
                let live = items(live).find(|item| has_keys(item, &keys));
                (live, Some(wanted))
            }
            Some(("v", text)) => {
                let owned: Value = serde_json::from_str(text).unwrap_or_default();
                return !items(wanted).any(|item| *item == owned);
            }
            _ => return true,
        };
        !is_leaf && owns_more(kind, inner, live, wanted)
    })
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// Whether an item of a list has these keys. The protocol of a port may be absent.
fn has_keys(item: &Value, keys: &Value) -> bool {
    let Some(keys) = keys.as_object() else {
        return false;
    };
    keys.iter().all(|(name, wanted)| match item.get(name) {
        Some(found) => found == wanted,
        None => name == "protocol" && wanted == "TCP",
    })
}

/// Whether the value is the API server's default of a field.
fn is_default(kind: &str, name: &str, value: &Value) -> bool {
    match kind {
        "Deployment" | "DaemonSet" | "Job" => is_default_of_workload(kind, name, value),
        "Service" => match name {
            "type" => value == "ClusterIP",
            "sessionAffinity" => value == "None",
            "internalTrafficPolicy" => value == "Cluster",
            "protocol" => value == "TCP",
            _ => false,
        },
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => match name {
            "matchPolicy" => value == "Equivalent",
            "failurePolicy" => value == "Fail",
            "reinvocationPolicy" => value == "Never",
            "namespaceSelector" | "objectSelector" => is_empty(value),
            "timeoutSeconds" => value == 10,
            "port" => value == 443,
            _ => false,
        },
        // Of a conversion.
        "CustomResourceDefinition" => name == "strategy" && value == "None",
        _ => false,
    }
}

fn is_default_of_workload(kind: &str, name: &str, value: &Value) -> bool {
    match name {
        "terminationMessagePath" => value == "/dev/termination-log",
        "terminationMessagePolicy" => value == "File",
        "imagePullPolicy" => value == "IfNotPresent",
        "protocol" => value == "TCP",
        "scheme" => value == "HTTP",
        // Of a reference to a field of the pod.
        "apiVersion" => value == "v1",
        "divisor" => value == "0",
        // Of the update strategy, or of a hostPath.
        "type" => value == "RollingUpdate" || value == "",
        "dnsPolicy" => value == "ClusterFirst",
        "restartPolicy" => value == "Always",
        "schedulerName" => value == "default-scheduler",
        // The old name of serviceAccountName.
        "serviceAccount" => true,
        "securityContext" => is_empty(value),
        "terminationGracePeriodSeconds" => value == 30,
        "defaultMode" => value == 420,
        "timeoutSeconds" | "successThreshold" => value == 1,
        "failureThreshold" => value == 3,
        "periodSeconds" | "revisionHistoryLimit" => value == 10,
        "progressDeadlineSeconds" => value == 600,
        "replicas" => kind == "Deployment" && value == 1,
        "maxUnavailable" if kind == "DaemonSet" => value == 1,
        "maxSurge" if kind == "DaemonSet" => value == 0,
        "maxUnavailable" | "maxSurge" => value == "25%",
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Fields that virt-operator owns of a Deployment that it created.
    fn fields() -> Value {
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:progressDeadlineSeconds": {}, "f:replicas": {}, "f:revisionHistoryLimit": {},
                "f:selector": {},
                "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
                "f:template": {"f:spec": {
                    "f:containers": {"k:{\"name\":\"a\"}": {
                        ".": {}, "f:name": {}, "f:image": {}, "f:terminationMessagePath": {},
                        "f:ports": {".": {}, "k:{\"containerPort\":8443,\"protocol\":\"TCP\"}": {
                            ".": {}, "f:containerPort": {}, "f:protocol": {},
                        }},
                    }},
                    "f:dnsPolicy": {}, "f:securityContext": {}, "f:serviceAccount": {},
                    "f:serviceAccountName": {},
                }},
            },
        })
    }

    fn wanted() -> Value {
        json!({
            "metadata": {"labels": {"app": "a"}},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": "a"}},
                "template": {"spec": {
                    "serviceAccountName": "a",
                    "containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 8443}]}],
                }},
            },
        })
    }

    fn live() -> Value {
        let mut live = wanted();
        let spec = &mut live["spec"];
        spec["progressDeadlineSeconds"] = 600.into();
        spec["revisionHistoryLimit"] = 10.into();
        spec["strategy"] = json!({"rollingUpdate": {"maxSurge": "25%"}, "type": "RollingUpdate"});
        let pod = &mut spec["template"]["spec"];
        pod["dnsPolicy"] = "ClusterFirst".into();
        pod["securityContext"] = json!({});
        pod["serviceAccount"] = "a".into();
        pod["containers"][0]["terminationMessagePath"] = "/dev/termination-log".into();
        pod["containers"][0]["ports"][0]["protocol"] = "TCP".into();
        live
    }

    fn is_more(fields: &Value, live: &Value, wanted: &Value) -> bool {
        owns_more("Deployment", fields, Some(live), Some(wanted))
    }

    #[test]
    fn defaults_do_not_count() {
        assert!(!is_more(&fields(), &live(), &wanted()));
    }

    #[rstest::rstest]
    #[case::a_label("/metadata/labels", "app")]
    #[case::a_number("/spec", "replicas")]
    #[case::an_image("/spec/template/spec/containers/0", "image")]
    #[case::ports("/spec/template/spec/containers/0", "ports")]
    #[case::containers("/spec/template/spec", "containers")]
    fn an_unwanted_field_counts(#[case] parent: &str, #[case] field: &str) {
        let mut wanted = wanted();
        let parent = wanted.pointer_mut(parent).unwrap();
        parent.as_object_mut().unwrap().remove(field);
        assert!(is_more(&fields(), &live(), &wanted));
    }

    #[rstest::rstest]
    #[case("/spec/progressDeadlineSeconds", json!(900))]
    #[case("/spec/strategy/rollingUpdate/maxSurge", json!(1))]
    #[case("/spec/template/spec/dnsPolicy", json!("Default"))]
    #[case("/spec/template/spec/securityContext", json!({"runAsNonRoot": true}))]
    fn a_value_that_is_not_a_default_counts(#[case] path: &str, #[case] value: Value) {
        let mut live = live();
        *live.pointer_mut(path).unwrap() = value;
        assert!(is_more(&fields(), &live, &wanted()));
    }

    #[test]
    fn defaults_depend_on_the_kind() {
        assert!(is_default(
            "ValidatingWebhookConfiguration",
            "timeoutSeconds",
            &json!(10)
        ));
        assert!(!is_default("Deployment", "timeoutSeconds", &json!(10)));
        assert!(!is_default("ClusterRole", "protocol", &json!("TCP")));
    }
}
