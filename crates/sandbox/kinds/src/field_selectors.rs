//! Field selectors of built-in kinds.

use serde_json::Value;

use crate::{
    Kind,
    value::{at, flag, int, text},
};

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// Supported field labels.
pub fn field_labels(kind: &Kind) -> &'static [&'static str] {
    match (kind.group, kind.kind) {
        ("", "Pod") => &[
            NAME,
            NAMESPACE,
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Node") => &[NAME, "spec.unschedulable"],
        ("", "Namespace") => &[NAME, "status.phase"],
        ("", "Secret") => &[NAME, NAMESPACE, "type"],
        ("", "Service") => &[NAME, NAMESPACE, "spec.clusterIP", "spec.type"],
        ("", "ReplicationController") => &[NAME, NAMESPACE, "status.replicas"],
        ("", "Event") => &[
            NAME,
            NAMESPACE,
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            NAME,
            NAMESPACE,
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("batch", "Job") => &[NAME, NAMESPACE, "status.successful"],
        _ => &[NAME, NAMESPACE],
    }
}

/// Value at a field label, as selectors compare it. The error is the text of a 400.
pub fn field_value(kind: &Kind, object: &Value, label: &str) -> Result<String, String> {
    if !field_labels(kind).contains(&label) {
        return Err(unsupported(kind, label));
    }
    Ok(match label {
        "spec.unschedulable" | "spec.hostNetwork" => flag(object, label).to_string(),
        "status.replicas" => int(object, label).to_string(),
        "status.successful" => int(object, "status.succeeded").to_string(),
        "status.podIPs" => {
            let ips = crate::value::list(object, label).iter();
            ips.map(|ip| text(ip, "ip")).collect::<Vec<_>>().join(",")
        }
        "source" => match text(object, "source.component") {
            "" => text(object, "reportingComponent").to_owned(),
            component => component.to_owned(),
        },
        _ => match at(object, label) {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        },
    })
}

fn unsupported(kind: &Kind, label: &str) -> String {
    match (kind.group, kind.kind) {
        ("batch", "Job") => format!("field label {label:?} not supported for Job"),
        (
            "",
            "Pod" | "Node" | "Namespace" | "Secret" | "Service" | "ReplicationController" | "Event",
        )
        | ("events.k8s.io", "Event") => format!("field label not supported: {label}"),
        _ => format!(
            "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::field_value;

    #[rstest]
    #[case("", "pods", "spec.nodeName", Ok("n1"))]
    #[case("", "pods", "spec.hostNetwork", Ok("false"))]
    #[case("", "pods", "foo", Err("field label not supported: foo"))]
    #[case(
        "",
        "nodes",
        "metadata.namespace",
        Err("field label not supported: metadata.namespace")
    )]
    #[case(
        "batch",
        "jobs",
        "foo",
        Err("field label \"foo\" not supported for Job")
    )]
    #[case("batch", "jobs", "status.successful", Ok("0"))]
    #[case(
        "apps",
        "deployments",
        "foo",
        Err(
            "\"foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    )]
    fn field_values_match_kube_apiserver(
        #[case] group: &str,
        #[case] plural: &str,
        #[case] label: &str,
        #[case] expected: Result<&str, &str>,
    ) {
        let kind = crate::find(group, "v1", plural).unwrap();
        let object = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}});
        let value = field_value(kind, &object, label);
        assert_eq!(value.as_deref().map_err(String::as_str), expected);
    }
}
