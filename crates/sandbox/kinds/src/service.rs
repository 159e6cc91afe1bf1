//! Allocation of cluster IPs and node ports.

use serde_json::{Value, json};

use crate::value::{at, fields_mut, has, list, set_default, text};

/// Allocator of addresses and ports; the implementation tracks what is in use.
pub trait Allocator {
    fn cluster_ip(&mut self) -> Option<String>;
    fn node_port(&mut self) -> Option<u16>;
}

/// Allocates cluster IP, IP families and node ports that the Service needs and does not specify. On
/// update, call it after [`prepare_update`](crate::prepare_update).
pub fn allocate_service(object: &mut Value, allocator: &mut dyn Allocator) {
    let kind = text(object, "spec.type").to_owned();
    if kind == "ExternalName" {
        return;
    }
    let address = match text(object, "spec.clusterIP") {
        "" => match list(object, "spec.clusterIPs")
            .first()
            .and_then(Value::as_str)
        {
            Some(first) => Some(first.to_owned()),
            None => allocator.cluster_ip(),
        },
        address => Some(address.to_owned()),
    };
    let Some(spec) = fields_mut(object, "spec") else {
        return;
    };
    if let Some(address) = address {
        set_default(spec, "clusterIPs", json!([address]));
        let family = if address.contains(':') {
            "IPv6"
        } else {
            "IPv4"
        };
        set_default(spec, "clusterIP", address);
        set_default(spec, "ipFamilies", json!([family]));
    }
    set_default(spec, "ipFamilyPolicy", "SingleStack");
    let needs_node_ports = kind == "NodePort"
        || (kind == "LoadBalancer"
            && spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)));
    if needs_node_ports {
        for port in spec
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(port) = port.as_object_mut()
                && !port.contains_key("nodePort")
                && let Some(number) = allocator.node_port()
            {
                port.insert("nodePort".to_owned(), number.into());
            }
        }
    }
}

/// Restores allocated values that an update omits.
pub(crate) fn keep_allocated(new: &mut Value, old: &Value) {
    let has_cluster_ip = |service: &Value| text(service, "spec.type") != "ExternalName";
    if has_cluster_ip(new) && has_cluster_ip(old) {
        // A client that sets another cluster IP also replaces the list.
        let chosen = text(new, "spec.clusterIP").to_owned();
        if let (false, Some(spec)) = (chosen.is_empty(), fields_mut(new, "spec")) {
            set_default(spec, "clusterIPs", json!([chosen]));
        }
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            let before = at(old, "spec").get(field).cloned();
            if let (Some(before), Some(spec)) = (before, fields_mut(new, "spec")) {
                set_default(spec, field, before);
            }
        }
    }
    let has_node_ports =
        |service: &Value| matches!(text(service, "spec.type"), "NodePort" | "LoadBalancer");
    if !has_node_ports(new) {
        if has_node_ports(old) {
            release_node_ports(new, old);
        }
        return;
    }
    if !has_node_ports(old) {
        return;
    }
    let same = |new: &Value, old: &Value| {
        at(new, "port") == at(old, "port") && text(new, "protocol") == text(old, "protocol")
    };
    let ports = new
        .get_mut("spec")
        .and_then(|spec| spec.get_mut("ports")?.as_array_mut());
    for port in ports
        .into_iter()
        .flatten()
        .filter(|port| !has(port, "nodePort"))
    {
        let before = list(old, "spec.ports").iter().find(|old| same(port, old));
        if let (Some(number), Some(fields)) = (
            before.and_then(|old| old.get("nodePort")),
            port.as_object_mut(),
        ) {
            fields.insert("nodePort".to_owned(), number.clone());
        }
    }
}

/// Drops allocated node ports when the new type has none.
fn release_node_ports(new: &mut Value, old: &Value) {
    let given: Vec<Value> = list(old, "spec.ports")
        .iter()
        .map(|port| at(port, "nodePort").clone())
        .collect();
    let ports = new
        .get_mut("spec")
        .and_then(|spec| spec.get_mut("ports")?.as_array_mut());
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if port
            .get("nodePort")
            .is_some_and(|number| given.contains(number))
        {
            port.remove("nodePort");
        }
    }
}
