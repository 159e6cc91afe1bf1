//! Node selectors of pods and volumes.

use serde_json::Value;

use crate::object::{label, list, map, name, text};

/// Whether a pod's `nodeSelector` and required node affinity admit a node.
pub(crate) fn admits(pod_spec: &Value, node: &Value) -> bool {
    let selector = map(pod_spec, "/nodeSelector").into_iter().flatten();
    let is_selected = selector
        .into_iter()
        .all(|(key, value)| label(node, key).is_some_and(|label| Some(label) == value.as_str()));
    let required =
        pod_spec.pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    is_selected && required.is_none_or(|required| selects(required, node))
}

/// Whether a node selector selects a node: one of its terms must match.
pub(crate) fn selects(selector: &Value, node: &Value) -> bool {
    list(selector, "/nodeSelectorTerms").iter().any(|term| {
        let expressions = list(term, "/matchExpressions");
        let fields = list(term, "/matchFields");
        let is_empty = expressions.is_empty() && fields.is_empty();
        !is_empty
            && expressions
                .iter()
                .all(|one| matches(one, label(node, text(one, "/key"))))
            && fields.iter().all(|one| {
                matches(
                    one,
                    (text(one, "/key") == "metadata.name").then(|| name(node)),
                )
            })
    })
}

fn matches(requirement: &Value, value: Option<&str>) -> bool {
    let values = list(requirement, "/values");
    let is_in = || value.is_some_and(|value| values.iter().any(|one| one.as_str() == Some(value)));
    let number = |value: Option<&str>| value.and_then(|value| value.parse::<i64>().ok());
    let bound = || number(values.first().and_then(Value::as_str));
    match text(requirement, "/operator") {
        "In" => is_in(),
        "NotIn" => !is_in(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number(value)
            .zip(bound())
            .is_some_and(|(value, bound)| value > bound),
        "Lt" => number(value)
            .zip(bound())
            .is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"key": "zone", "operator": "In", "values": ["a"]}), true)]
    #[case(json!({"key": "zone", "operator": "NotIn", "values": ["a"]}), false)]
    #[case(json!({"key": "gone", "operator": "NotIn", "values": ["a"]}), true)]
    #[case(json!({"key": "zone", "operator": "Exists"}), true)]
    #[case(json!({"key": "zone", "operator": "DoesNotExist"}), false)]
    #[case(json!({"key": "size", "operator": "Gt", "values": ["3"]}), true)]
    #[case(json!({"key": "size", "operator": "Lt", "values": ["3"]}), false)]
    #[case(json!({"key": "size", "operator": "Like", "values": ["3"]}), false)]
    fn expressions(#[case] expression: Value, #[case] expected: bool) {
        let node = json!({"metadata": {"name": "n", "labels": {"zone": "a", "size": "4"}}});
        let selector = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
        assert_eq!(selects(&selector, &node), expected);
    }

    #[test]
    fn a_field_selector_selects_a_node_by_name() {
        let selector = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]});
        assert!(selects(&selector, &json!({"metadata": {"name": "n"}})));
        assert!(!selects(&selector, &json!({"metadata": {"name": "m"}})));
    }

    #[test]
    fn a_selector_matches_only_if_all_its_labels_do() {
        let node = json!({"metadata": {"labels": {"a": "1"}}});
        assert!(admits(&json!({"nodeSelector": {"a": "1"}}), &node));
        assert!(!admits(
            &json!({"nodeSelector": {"a": "1", "b": "2"}}),
            &node
        ));
    }
}
