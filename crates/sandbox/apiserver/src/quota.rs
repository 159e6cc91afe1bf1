//! Resource quotas: what objects count for, and the admission that holds a namespace to its limits.
//!
//! As in a real cluster, a write is charged to `status.used` of each quota that it concerns before
//! it is stored; two that come at the same time cannot both have the last of it. What becomes free
//! is found by counting again, which the controller of quotas does when it is told of a change.
//! A quota holds from its first count on.

mod admission;
mod pods;

use std::{collections::BTreeMap, sync::LazyLock};

use jiff::Timestamp;
use quantity::Quantity;
use serde_json::Value;

pub use admission::{charge, recount};

use crate::{object, store::TableId};

/// Amounts by the names that quotas limit them by.
pub type Amounts = BTreeMap<String, Quantity>;

const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";

/// Kinds of the core group whose number quotas limit by a name without `count/`.
const COUNTED_BY_RESOURCE: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];

/// Whether objects of a table may count for what a quota calls `name`.
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

/// What an object counts for.
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

/// Whether the scopes of a quota leave an object to it.
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

/// Whether a change of an object, and not only its end, may free something.
pub fn may_shrink(table: &TableId) -> bool {
    matches!(core(table), "pods" | "services" | CLAIMS)
}

/// The amounts of a map such as `status.used`.
pub fn amounts(object: &Value, pointer: &str) -> Amounts {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.clone(), quantity(amount)?)))
        .collect()
}

/// The amounts as an object has them.
pub fn to_value(amounts: &Amounts) -> Value {
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), Value::from(amount.to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The sums, name by name.
pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).map_or(*amount, |already| *already + *amount);
        to.insert(name.clone(), sum);
    }
}

/// So many of something.
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

fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The resource of a table of the core group.
fn core(table: &TableId) -> &str {
    match table.group.as_ref() {
        "" => table.resource.as_ref(),
        _ => "",
    }
}

/// Events come and go by themselves.
fn is_ignored(table: &TableId) -> bool {
    core(table) == "events"
}

fn of_claim(claim: &Value) -> Amounts {
    let mut usage = Amounts::from([(CLAIMS.to_owned(), units(1))]);
    let requested = claim
        .pointer("/spec/resources/requests/storage")
        .and_then(quantity)
        .map(Quantity::rounded_up);
    // A volume that is larger than what is now asked for is paid for as it is.
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

/// The namespace that a key of a table is in.
pub fn namespace_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// The table of the quotas themselves: looked for with every write, so not made anew each time.
pub static TABLE: LazyLock<TableId> = LazyLock::new(|| TableId::new("", "resourcequotas"));

/// A name for error texts.
fn name_of(object: &Value) -> &str {
    object::meta(object, "name")
}
