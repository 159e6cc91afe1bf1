//! Printers of RBAC, leases, webhooks, policies, networking and CustomResourceDefinitions.

use serde_json::{Value, json};

use super::{AGE, CREATED, Column, NAME, Row, core, first_three, storage};
use crate::{
    Kind,
    value::{at, flag, has, list, text},
};

const DEFINITION: &[Column] = &[
    NAME,
    Column::text("Scope", "Namespaced or Cluster"),
    Column::text("Versions", "The versions it serves"),
    CREATED,
    Column::text("Group", "Its API group").wide(),
    Column::text("Kind", "Its kind").wide(),
    Column::text("ShortNames", "Its short names").wide(),
    Column::truth("Established", "Whether it is served").wide(),
];

const INGRESS: &[Column] = &[
    NAME,
    Column::text("Class", "What serves it"),
    Column::text("Hosts", "The hosts it is for"),
    Column::text("Address", "Where it is reached"),
    Column::text("Ports", "On what ports"),
    AGE,
];

const BINDING: &[Column] = &[
    NAME,
    Column::text("Role", "What is granted"),
    AGE,
    Column::text("Users", "Users who have it").wide(),
    Column::text("Groups", "Groups that have it").wide(),
    Column::text("ServiceAccounts", "Service accounts that have it").wide(),
];

const ENDPOINT_SLICE: &[Column] = &[
    NAME,
    Column::text("AddressType", "What its addresses are"),
    Column::text("Ports", "Its ports"),
    Column::text("Endpoints", "Its addresses"),
    AGE,
];

const PRIORITY_CLASS: &[Column] = &[
    NAME,
    Column::number("Value", "The priority"),
    Column::truth("Global-Default", "Whether pods without a class have it"),
    AGE,
    Column::text("PreemptionPolicy", "Whether others make room"),
];

pub(super) fn columns(kind: &Kind) -> Option<&'static [Column]> {
    Some(match kind.kind {
        "Role" | "ClusterRole" => const { &[NAME, CREATED] },
        "RoleBinding" | "ClusterRoleBinding" => BINDING,
        "Lease" => {
            const {
                &[
                    NAME,
                    Column::text("Holder", "The identity of the current holder"),
                    AGE,
                ]
            }
        }
        "PriorityClass" => PRIORITY_CLASS,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            const {
                &[
                    NAME,
                    Column::number("Webhooks", "How many webhooks it has"),
                    AGE,
                ]
            }
        }
        "ValidatingAdmissionPolicy" => {
            const {
                &[
                    NAME,
                    Column::number("Validations", "How many rules it has"),
                    Column::text("ParamKind", "What its parameters are"),
                    AGE,
                ]
            }
        }
        "ValidatingAdmissionPolicyBinding" => {
            const {
                &[
                    NAME,
                    Column::text("PolicyName", "The policy"),
                    Column::text("ParamRef", "Its parameters"),
                    AGE,
                ]
            }
        }
        "CustomResourceDefinition" => DEFINITION,
        "APIService" => {
            const {
                &[
                    NAME,
                    Column::text("Service", "What serves it"),
                    Column::text("Available", "Whether it is served"),
                    AGE,
                ]
            }
        }
        "EndpointSlice" => ENDPOINT_SLICE,
        "NetworkPolicy" => {
            const {
                &[
                    NAME,
                    Column::text("Pod-Selector", "The pods it is for"),
                    AGE,
                ]
            }
        }
        "Ingress" => INGRESS,
        "IngressClass" => {
            const {
                &[
                    NAME,
                    Column::text("Controller", "What serves its ingresses"),
                    Column::text("Parameters", "How"),
                    AGE,
                ]
            }
        }
        _ => return None,
    })
}

pub(super) fn cells(kind: &Kind, row: Row<'_>) -> Option<Vec<Value>> {
    Some(match kind.kind {
        "Role" | "ClusterRole" => vec![row.name(), row.created()],
        "RoleBinding" | "ClusterRoleBinding" => binding(row),
        "Lease" => vec![
            row.name(),
            row.text("spec.holderIdentity").into(),
            row.age(),
        ],
        "PriorityClass" => vec![
            row.name(),
            row.number("value"),
            row.truth("globalDefault"),
            row.age(),
            row.text("preemptionPolicy").into(),
        ],
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            vec![row.name(), row.count("webhooks"), row.age()]
        }
        "ValidatingAdmissionPolicy" => {
            let kind = if has(row.object, "spec.paramKind") {
                format!(
                    "{}/{}",
                    row.text("spec.paramKind.apiVersion"),
                    row.text("spec.paramKind.kind")
                )
            } else {
                "<unset>".to_owned()
            };
            vec![
                row.name(),
                row.count("spec.validations"),
                kind.into(),
                row.age(),
            ]
        }
        "ValidatingAdmissionPolicyBinding" => policy_binding(row),
        "CustomResourceDefinition" => definition(row),
        "APIService" => api_service(row),
        "EndpointSlice" => endpoint_slice(row),
        "NetworkPolicy" => vec![row.name(), row.selector("spec.podSelector"), row.age()],
        "Ingress" => ingress(row),
        "IngressClass" => ingress_class(row),
        _ => return None,
    })
}

fn binding(row: Row<'_>) -> Vec<Value> {
    let subjects = |kind: &str| {
        let of_kind = list(row.object, "subjects")
            .iter()
            .filter(|subject| text(subject, "kind") == kind);
        let names: Vec<String> = of_kind
            .map(|subject| match kind {
                "ServiceAccount" => {
                    format!("{}/{}", text(subject, "namespace"), text(subject, "name"))
                }
                _ => text(subject, "name").to_owned(),
            })
            .collect();
        Value::from(names.join(", "))
    };
    vec![
        row.name(),
        format!("{}/{}", row.text("roleRef.kind"), row.text("roleRef.name")).into(),
        row.age(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn policy_binding(row: Row<'_>) -> Vec<Value> {
    let name = row.text("spec.paramRef.name");
    let parameters = match (name, row.text("spec.paramRef.namespace")) {
        ("", _) => "<unset>".to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    vec![
        row.name(),
        row.text("spec.policyName").into(),
        parameters.into(),
        row.age(),
    ]
}

fn definition(row: Row<'_>) -> Vec<Value> {
    let served = list(row.object, "spec.versions")
        .iter()
        .filter(|version| flag(version, "served"));
    let mut versions: Vec<String> = served
        .map(|version| {
            let stored = if flag(version, "storage") {
                "(storage)"
            } else {
                ""
            };
            format!("{}{stored}", text(version, "name"))
        })
        .collect();
    versions.sort();
    let short: Vec<&str> = list(row.object, "spec.names.shortNames")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    vec![
        row.name(),
        row.text("spec.scope").into(),
        versions.join(",").into(),
        row.created(),
        row.text("spec.group").into(),
        row.text("spec.names.kind").into(),
        short.join(",").into(),
        (row.condition("Established") == "True").into(),
    ]
}

fn api_service(row: Row<'_>) -> Vec<Value> {
    let service = if has(row.object, "spec.service") {
        format!(
            "{}/{}",
            row.text("spec.service.namespace"),
            row.text("spec.service.name")
        )
    } else {
        "Local".to_owned()
    };
    let conditions = list(row.object, "status.conditions").iter();
    let reason = conditions
        .filter(|condition| text(condition, "type") == "Available")
        .map(|condition| text(condition, "reason"))
        .next()
        .unwrap_or_default();
    let available = match (row.condition("Available"), reason) {
        ("", _) => "Unknown".to_owned(),
        ("True", _) => "True".to_owned(),
        (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    };
    vec![row.name(), service.into(), available.into(), row.age()]
}

fn endpoint_slice(row: Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = list(row.object, "ports")
        .iter()
        .map(
            |port| match (at(port, "port").as_i64(), text(port, "name")) {
                (Some(number), _) => number.to_string(),
                (None, "") => "*".to_owned(),
                (None, name) => name.to_owned(),
            },
        )
        .collect();
    let addresses = list(row.object, "endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "addresses"));
    let addresses: Vec<String> = addresses
        .filter_map(|address| Some(address.as_str()?.to_owned()))
        .collect();
    vec![
        row.name(),
        row.text("addressType").into(),
        first_three(&ports, "<unset>").into(),
        first_three(&addresses, "<unset>").into(),
        row.age(),
    ]
}

fn ingress(row: Row<'_>) -> Vec<Value> {
    let hosts = list(row.object, "spec.rules")
        .iter()
        .map(|rule| text(rule, "host"));
    let hosts: Vec<String> = hosts
        .filter(|host| !host.is_empty())
        .map(str::to_owned)
        .collect();
    let ports = if list(row.object, "spec.tls").is_empty() {
        "80"
    } else {
        "80, 443"
    };
    vec![
        row.name(),
        row.or("spec.ingressClassName", "<none>"),
        first_three(&hosts, "*").into(),
        core::balancer(row).join(",").into(),
        ports.into(),
        row.age(),
    ]
}

fn ingress_class(row: Row<'_>) -> Vec<Value> {
    let parameters = match at(row.object, "spec.parameters") {
        Value::Null => "<none>".to_owned(),
        parameters => {
            let group = match text(parameters, "apiGroup") {
                "" => String::new(),
                group => format!(".{group}"),
            };
            format!(
                "{}{group}/{}",
                text(parameters, "kind"),
                text(parameters, "name")
            )
        }
    };
    vec![
        storage::with_default(row, "ingressclass.kubernetes.io/is-default-class"),
        row.text("spec.controller").into(),
        json!(parameters),
        row.age(),
    ]
}
