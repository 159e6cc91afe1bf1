//! ResourceQuota: usage of objects, and admission.
//!
//! As in a real cluster, admission charges a write to `status.used` of each matching quota before
//! it is stored, so two concurrent writes cannot share the last unit. Released usage is found by
//! recounting in the quota controller. A quota is enforced from its first count on.

mod admission;
mod pods;

use std::{collections::BTreeMap, sync::LazyLock};

use jiff::Timestamp;
use quantity::Quantity;
use serde_json::Value;

pub use admission::{charge, recount};

use crate::{
    object::{self, items},
    store::TableId,
};

/// Amounts by resource name of the quota.
pub type Amounts = BTreeMap<String, Quantity>;

const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";

/// Core resources that quotas also limit without the prefix `count/`.
const COUNTED_BY_RESOURCE: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];

/// Whether objects of a table may count for the quota resource `name`.
pub fn concerns(table: &TableId, name: &str) -> bool {
    if is_ignored(table) {
        return false;
    }
    if name.strip_prefix("count/") == Some(&table.to_string()) {
        return true;
    }
    match core(table) {
        "pods" => pods::concerns(name),
        CLAIMS => {
            [CLAIMS, STORAGE].contains(&name)
                || name
                    .split_once(BY_CLASS)
                    .is_some_and(|(_, what)| [CLAIMS, STORAGE].contains(&what))
        }
        "services" => matches!(
            name,
            "services" | "services.nodeports" | "services.loadbalancers"
        ),
        plain => COUNTED_BY_RESOURCE.contains(&plain) && plain == name,
    }
}

/// Usage of one object.
pub fn usage(table: &TableId, object: &Value, now: Timestamp) -> Amounts {
    let mut usage = Amounts::from([(format!("count/{table}"), units(1))]);
    match core(table) {
        "pods" => usage.extend(pods::usage(object, now)),
        CLAIMS => usage.extend(of_claim(object)),
        "services" => usage.extend(of_service(object)),
        plain if COUNTED_BY_RESOURCE.contains(&plain) => {
            usage.insert(plain.to_owned(), units(1));
        }
        _ => {}
    }
    usage
}

/// Whether the scopes of a quota match an object.
pub fn is_in_scope(table: &TableId, quota: &Value, object: &Value) -> bool {
    let scopes = items(quota, "/spec/scopes").map(|scope| {
        let scope = scope.as_str().unwrap_or_default();
        (scope, "Exists", &Value::Null)
    });
    let selectors = items(quota, "/spec/scopeSelector/matchExpressions").map(|selector| {
        let text = |field: &str| selector.get(field).and_then(Value::as_str);
        (
            text("scopeName").unwrap_or_default(),
            text("operator").unwrap_or_default(),
            selector.get("values").unwrap_or(&Value::Null),
        )
    });
    scopes.chain(selectors).all(|(scope, operator, values)| {
        core(table) == "pods" && pods::is_in_scope(object, scope, operator, values)
    })
}

/// Whether an update, not only a deletion, may release usage.
pub fn may_shrink(table: &TableId) -> bool {
    matches!(core(table), "pods" | "services" | CLAIMS)
}

/// Parses a resource list such as `status.used`.
pub fn amounts(object: &Value, pointer: &str) -> Amounts {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.clone(), quantity(amount)?)))
        .collect()
}

pub fn to_value(amounts: &Amounts) -> Value {
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), Value::from(amount.to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).map_or(*amount, |already| *already + *amount);
        to.insert(name.clone(), sum);
    }
}

pub fn units(number: u32) -> Quantity {
    quantity(&Value::from(number)).unwrap_or(Quantity::from_bytes(i64::from(number)))
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Resource name if the table is of the core group, else empty.
fn core(table: &TableId) -> &str {
    match table.group.as_ref() {
        "" => table.resource.as_ref(),
        _ => "",
    }
}

/// Quotas do not count Events.
fn is_ignored(table: &TableId) -> bool {
    core(table) == "events"
}

fn of_claim(claim: &Value) -> Amounts {
    let mut usage = Amounts::from([(CLAIMS.to_owned(), units(1))]);
    let requested = claim
        .pointer("/spec/resources/requests/storage")
        .and_then(quantity)
        .map(Quantity::rounded_up);
    // A volume that was allocated larger than the request counts with its size.
    let allocated = claim
        .pointer("/status/allocatedResources/storage")
        .and_then(quantity)
        .map(Quantity::rounded_up);
    if let Some(requested) = requested {
        let counted = allocated.filter(|allocated| *allocated > requested);
        usage.insert(STORAGE.to_owned(), counted.unwrap_or(requested));
    }
    let class = claim
        .pointer("/metadata/annotations/volume.beta.kubernetes.io~1storage-class")
        .or_else(|| claim.pointer("/spec/storageClassName"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !class.is_empty() {
        let of_class: Amounts = usage
            .iter()
            .map(|(name, amount)| (format!("{class}{BY_CLASS}{name}"), *amount))
            .collect();
        usage.extend(of_class);
    }
    usage
}

fn of_service(service: &Value) -> Amounts {
    let ports = items(service, "/spec/ports").count();
    let given = items(service, "/spec/ports")
        .filter(|port| port.get("nodePort").is_some_and(|port| *port != 0))
        .count();
    let allocates = service.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&false.into());
    let (node_ports, balancers) = match service.pointer("/spec/type").and_then(Value::as_str) {
        Some("NodePort") => (ports, 0),
        Some("LoadBalancer") if allocates => (ports, 1),
        Some("LoadBalancer") => (given, 1),
        _ => (0, 0),
    };
    let node_ports = u32::try_from(node_ports).unwrap_or(u32::MAX);
    Amounts::from([
        ("services".to_owned(), units(1)),
        ("services.nodeports".to_owned(), units(node_ports)),
        ("services.loadbalancers".to_owned(), units(balancers)),
    ])
}

pub fn namespace_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// Used by every write, so allocated once.
pub static TABLE: LazyLock<TableId> = LazyLock::new(|| TableId::new("", "resourcequotas"));

fn name_of(object: &Value) -> &str {
    object::meta(object, "name")
}
