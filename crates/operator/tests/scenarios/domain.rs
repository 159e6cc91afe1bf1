//! Fields of a VirtualMachine's domain.

use serde_json::Value;

use crate::scenario::Scenario;

pub(crate) const DOMAIN: &str = "/spec/template/spec/domain";

pub(crate) fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

/// Waits until the VirtualMachine has a value at a pointer below its domain.
pub(crate) async fn until_domain(
    scenario: &Scenario,
    vm: &str,
    pointer: &str,
    value: &Value,
) -> Value {
    let pointer = format!("{DOMAIN}{pointer}");
    let found = scenario.until("VirtualMachine", vm, |vm| at(vm, &pointer) == value);
    found.await
}
