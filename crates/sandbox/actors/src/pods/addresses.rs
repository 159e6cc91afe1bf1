//! IP addresses of nodes and pods.

use std::{collections::BTreeSet, net::Ipv4Addr};

use serde_json::Value;

use crate::{
    Context,
    kind::POD,
    object::{list, name, text, uid},
};

pub(super) fn host_address(node: &Value) -> &str {
    let addresses = list(node, "/status/addresses").iter();
    let mut internal = addresses.filter(|address| text(address, "/type") == "InternalIP");
    internal
        .next()
        .map_or("", |address| text(address, "/address"))
}

/// A free address of the node's pod range.
pub(super) fn pod_address(ctx: &Context<'_>, pod: &Value, node: &Value) -> String {
    let range = text(node, "/spec/podCIDR")
        .split_once('/')
        .unwrap_or_default();
    let base: Ipv4Addr = range.0.parse().unwrap_or(Ipv4Addr::new(10, 127, 0, 0));
    let length: u32 = range.1.parse().unwrap_or(20);
    let size = 1u64 << (32 - length.clamp(8, 30));
    let used: BTreeSet<&str> = ctx
        .caches
        .on_node(POD, name(node))
        .map(|pod| text(pod, "/status/podIP"))
        .collect();
    let first = ctx.random(uid(pod));
    let mut addresses = (0..size).map(|offset| {
        let host = 1 + (first.wrapping_add(offset)) % (size - 2);
        Ipv4Addr::from(u32::from(base).wrapping_add(u32::try_from(host).unwrap_or_default()))
            .to_string()
    });
    addresses
        .find(|address| !used.contains(address.as_str()))
        .unwrap_or_default()
}
