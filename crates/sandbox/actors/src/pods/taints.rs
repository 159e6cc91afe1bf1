//! Taints and tolerations.

use serde_json::Value;

use crate::object::{list, text};

/// First taint with one of these effects that no toleration covers.
pub(crate) fn untolerated<'a>(
    node: &'a Value,
    tolerations: &[Value],
    effects: &[&str],
) -> Option<&'a Value> {
    list(node, "/spec/taints").iter().find(|taint| {
        effects.contains(&text(taint, "/effect"))
            && !tolerations
                .iter()
                .any(|toleration| tolerates(toleration, taint))
    })
}

/// Tolerations that cover a taint.
pub(crate) fn tolerations_of<'a>(
    tolerations: &'a [Value],
    taint: &'a Value,
) -> impl Iterator<Item = &'a Value> {
    tolerations
        .iter()
        .filter(move |toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
    if !effect.is_empty() && effect != text(taint, "/effect") {
        return false;
    }
    if !key.is_empty() && key != text(taint, "/key") {
        return false;
    }
    match text(toleration, "/operator") {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && text(toleration, "/value") == text(taint, "/value"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"operator": "Exists"}), true)]
    #[case(json!({"key": "a", "operator": "Exists"}), true)]
    #[case(json!({"key": "a", "value": "1"}), true)]
    #[case(json!({"key": "a", "value": "2"}), false)]
    #[case(json!({"key": "b", "operator": "Exists"}), false)]
    #[case(json!({"key": "a", "operator": "Exists", "effect": "NoExecute"}), false)]
    fn tolerations(#[case] toleration: Value, #[case] expected: bool) {
        let node =
            json!({"spec": {"taints": [{"key": "a", "value": "1", "effect": "NoSchedule"}]}});
        let found = untolerated(&node, &[toleration], &["NoSchedule", "NoExecute"]);
        assert_eq!(found.is_none(), expected);
    }

    #[test]
    fn prefer_no_schedule_taints_are_ignored() {
        let node = json!({"spec": {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}});
        assert_eq!(untolerated(&node, &[], &["NoSchedule", "NoExecute"]), None);
    }
}
