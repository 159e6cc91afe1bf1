//! Validation of the CEL rules of a schema.

use serde_json::Value;

use super::{internal, structural::items};
use crate::{Violation, cel, node::Node, path::Path};

/// Path of the enclosing list whose items cannot be correlated with old values.
pub(super) type Uncorrelatable = Option<String>;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Checks the fields of rules besides the expression.
pub(super) fn check_form(schema: &Value, path: &str, found: &mut Vec<Violation>) {
    for (index, rule) in items(schema, "x-kubernetes-validations").enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{index}]");
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or("");
        let has_breaks = |text: &str| text.contains(['\n', '\r']);
        let (source, message) = (text("rule").trim(), text("message").trim());
        if source.is_empty() {
            let path = format!("{path}.rule");
            found.push(Violation::required(path, "rule is not specified"));
        } else if !text("message").is_empty() && message.is_empty() {
            found.push(Violation::invalid(
                format!("{path}.message"),
                text("message"),
                "must be non-empty if specified",
            ));
        } else if has_breaks(message) {
            found.push(Violation::invalid(
                format!("{path}.message"),
                text("message"),
                "must not contain line breaks",
            ));
        } else if has_breaks(source) && message.is_empty() {
            found.push(Violation::required(
                format!("{path}.message"),
                "message must be specified if rule contains line breaks",
            ));
        }
        if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
            found.push(Violation::required(
                format!("{path}.messageExpression"),
                "messageExpression must be non-empty if specified",
            ));
        }
        if let Some(reason) = rule.get("reason").and_then(Value::as_str)
            && !REASONS.contains(&reason)
        {
            let path = format!("{path}.reason");
            found.push(Violation::unsupported(path, reason, &REASONS));
        }
        let field_path = text("fieldPath");
        let mut invalid = |detail: &str| {
            let path = format!("{path}.fieldPath");
            found.push(Violation::invalid(path, field_path, detail));
        };
        if field_path.is_empty() {
            continue;
        }
        if field_path.trim().is_empty() {
            invalid("must be non-empty if specified");
        }
        if has_breaks(field_path) {
            invalid("must not contain line breaks");
        }
        let mut without_rules = schema.clone();
        if let Some(fields) = without_rules.as_object_mut() {
            fields.remove("x-kubernetes-validations");
        }
        if let Ok(node) = Node::compile(&without_rules, &Path::Root)
            && cel::field_path::normalized(field_path, &node).is_none()
        {
            invalid("must be a valid path");
        }
    }
}

/// Checks that the rules compile and use `oldSelf` only where values can be correlated.
pub(super) fn check(
    schema: &Value,
    path: &str,
    is_object: bool,
    uncorrelatable: &Uncorrelatable,
    found: &mut Vec<Violation>,
) {
    if items(schema, "x-kubernetes-validations").next().is_none() {
        return;
    }
    let mut without_rules = schema.clone();
    if let Some(fields) = without_rules.as_object_mut() {
        fields.remove("x-kubernetes-validations");
    }
    let Ok(node) = Node::compile(&without_rules, &Path::Root) else {
        return;
    };
    for (index, rule) in items(schema, "x-kubernetes-validations").enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{index}]");
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or("");
        let optional_old_self = rule.get("optionalOldSelf");
        let is_optional = optional_old_self == Some(&Value::Bool(true));
        let mut invalid = |name: &str, detail: String| {
            let shown = internal::rule(rule);
            let path = format!("{path}.{name}");
            found.push(Violation::invalid_shown(path, shown, detail));
        };
        let checked = cel::type_check::rule(text("rule").trim(), &node, is_object, is_optional);
        let uses_old_self = match checked {
            Ok(uses_old_self) => uses_old_self,
            Err(detail) => {
                invalid("rule", detail);
                false
            }
        };
        let message = text("messageExpression").trim();
        if !message.is_empty()
            && let Err(detail) = cel::type_check::message(message, &node, is_object, is_optional)
        {
            invalid("messageExpression", detail);
        }
        if uses_old_self {
            if let Some(within) = uncorrelatable {
                found.push(Violation::invalid(
                    format!("{path}.rule"),
                    text("rule"),
                    format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                    ),
                ));
            }
        } else if let Some(optional) = optional_old_self.filter(|value| !value.is_null()) {
            found.push(Violation::invalid(
                format!("{path}.optionalOldSelf"),
                optional.clone(),
                "may not be set if oldSelf is not used in rule",
            ));
        }
    }
}
