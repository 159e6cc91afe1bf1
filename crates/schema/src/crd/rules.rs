//! Validation of the CEL rules of a schema.

use cel::{CompileError, Program};
use serde_json::Value;

use super::{
    costs::{self, Total},
    internal,
    structural::items,
};

use crate::{Violation, node::Node, path::Path, rules};

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
            && rules::field_path::normalized(field_path, &node).is_none()
        {
            invalid("must be a valid path");
        }
    }
}

/// Where a schema is, as far as it matters for its rules.
pub(super) struct Place<'a> {
    pub(super) path: &'a str,
    /// Whether it is that of an object with a type and a name.
    pub(super) is_object: bool,
    pub(super) uncorrelatable: &'a Uncorrelatable,
    /// How often there may be a value of it; `None` if that is not bounded.
    pub(super) cardinality: Option<u64>,
}

/// Checks that the rules compile, do not cost too much, and use `oldSelf` only where values can be
/// correlated.
pub(super) fn check(
    schema: &Value,
    place: &Place<'_>,
    total: &mut Total,
    found: &mut Vec<Violation>,
) {
    if items(schema, "x-kubernetes-validations").next().is_none() {
        return;
    }
    let mut without_rules = schema.clone();
    if let Some(fields) = without_rules.as_object_mut() {
        fields.remove("x-kubernetes-validations");
    }
    let path = place.path;
    let Ok(node) = Node::compile(&without_rules, &Path::Root) else {
        return;
    };
    let Some(data) = rules::data::of(&node, place.is_object) else {
        found.push(Violation::forbidden(
            format!("{path}.x-kubernetes-validations"),
            "rules cannot see values of this schema, because it has no type",
        ));
        return;
    };
    let cardinality = place.cardinality.unwrap_or_else(|| data.max_cardinality());
    for (index, rule) in items(schema, "x-kubernetes-validations").enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{index}]");
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or("");
        let optional_old_self = rule.get("optionalOldSelf");
        let is_optional = optional_old_self == Some(&Value::Bool(true));
        let invalid = |name: &str, detail: String| {
            let shown = internal::rule(rule);
            Violation::invalid_shown(format!("{path}.{name}"), shown, detail)
        };
        // The server compiles rules as they are written.
        let compiled = rules::compile(text("rule"), &data, is_optional);
        let mut uses_old_self = false;
        match checked(compiled, Program::is_bool) {
            Ok(program) => {
                let place = format!("{path}.rule");
                let cost = program.max_cost().saturating_mul(cardinality);
                found.extend(costs::check(&place, "estimated rule cost", cost));
                total.add(place, cost);
                uses_old_self = program.uses("oldSelf");
                let message = text("messageExpression");
                if !message.is_empty() {
                    let compiled = rules::compile(message, &data, is_optional);
                    match checked(compiled, Program::is_string) {
                        Ok(program) => {
                            let place = format!("{path}.messageExpression");
                            let cost = program.max_cost();
                            let name = "estimated messageExpression cost";
                            found.extend(costs::check(&place, name, cost));
                            total.add(place, cost);
                        }
                        Err(Unusable::Type) => found.push(invalid(
                            "messageExpression",
                            "messageExpression must evaluate to a string".to_owned(),
                        )),
                        Err(Unusable::Error(detail)) => found.push(invalid(
                            "messageExpression",
                            format!("messageExpression {detail}"),
                        )),
                    }
                }
            }
            Err(Unusable::Type) => found.push(invalid(
                "rule",
                "cel expression must evaluate to a bool".to_owned(),
            )),
            Err(Unusable::Error(detail)) => {
                let is_program = detail.starts_with("compilation");
                let detail = if is_program {
                    detail
                } else {
                    format!("program {detail}")
                };
                found.push(invalid("rule", detail));
            }
        }
        if uses_old_self {
            if let Some(within) = place.uncorrelatable {
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

/// Why an expression cannot be used.
enum Unusable {
    /// It has the wrong type.
    Type,
    Error(String),
}

fn checked(
    compiled: Result<Program, CompileError>,
    is_right: fn(&Program) -> bool,
) -> Result<Program, Unusable> {
    match compiled {
        Ok(program) if is_right(&program) => Ok(program),
        Ok(_) => Err(Unusable::Type),
        Err(CompileError::Invalid(errors)) => {
            Err(Unusable::Error(format!("compilation failed: {errors}")))
        }
        Err(CompileError::Instantiation(error)) => {
            Err(Unusable::Error(format!("instantiation failed: {error}")))
        }
    }
}
