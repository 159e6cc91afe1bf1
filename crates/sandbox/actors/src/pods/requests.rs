//! What pods ask for, what nodes have, and what is left.

use std::collections::BTreeMap;

use quantity::Quantity;
use serde_json::{Map, Value};

use crate::object::{list, map, text};

/// Amounts of resources by name, in billionths of a unit.
pub(crate) type Amounts = BTreeMap<String, i128>;

/// What the pods of a node ask for together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub pods: usize,
    pub amounts: Amounts,
}

impl Tally {
    pub fn add(&mut self, pod: &Value) {
        self.pods += 1;
        for (name, amount) in requests(pod) {
            *self.amounts.entry(name).or_default() += amount;
        }
    }

    pub fn remove(&mut self, pod: &Value) {
        self.pods = self.pods.saturating_sub(1);
        for (name, amount) in requests(pod) {
            if let Some(total) = self.amounts.get_mut(&name) {
                *total -= amount;
            }
        }
    }
}

/// What a pod asks for: its containers together, or its most demanding init container, and the
/// overhead of its runtime class.
pub(crate) fn requests(pod: &Value) -> Amounts {
    let mut total = Amounts::new();
    for container in list(pod, "/spec/containers") {
        add(&mut total, &asked(container));
    }
    let mut beside = Amounts::new();
    for container in list(pod, "/spec/initContainers") {
        let asked = asked(container);
        if text(container, "/restartPolicy") == "Always" {
            add(&mut total, &asked);
            add(&mut beside, &asked);
        } else {
            let mut peak = beside.clone();
            add(&mut peak, &asked);
            for (name, amount) in peak {
                let entry = total.entry(name).or_default();
                *entry = amount.max(*entry);
            }
        }
    }
    add(&mut total, &amounts(map(pod, "/spec/overhead")));
    total
}

fn asked(container: &Value) -> Amounts {
    let mut asked = amounts(map(container, "/resources/limits"));
    asked.extend(amounts(map(container, "/resources/requests")));
    asked
}

/// A map of quantities, as in `status.allocatable`.
pub(crate) fn amounts(quantities: Option<&Map<String, Value>>) -> Amounts {
    let quantities = quantities.into_iter().flatten();
    quantities
        .map(|(name, value)| (name.clone(), amount(value)))
        .collect()
}

/// A quantity as a number; nothing if it is none.
pub(crate) fn amount(value: &Value) -> i128 {
    let parsed = match value {
        Value::String(text) => text.parse::<Quantity>(),
        other => other.to_string().parse(),
    };
    parsed.map(Quantity::nanos).unwrap_or_default()
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn init_containers_count_by_their_peak() {
        let pod = json!({"spec": {
            "containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}, {}],
            "initContainers": [
                {"resources": {"requests": {"cpu": "250m"}}, "restartPolicy": "Always"},
                {"resources": {"requests": {"cpu": "2", "memory": "1Mi"}}},
            ],
        }});
        let total = requests(&pod);
        assert_eq!(total["cpu"], amount(&json!("2250m")));
        assert_eq!(total["memory"], amount(&json!("1Gi")));
    }

    #[test]
    fn limits_stand_in_for_requests() {
        let pod = json!({"spec": {"containers": [{"resources": {"limits": {"devices.kubevirt.io/kvm": "1"}}}]}});
        assert_eq!(requests(&pod)["devices.kubevirt.io/kvm"], amount(&json!(1)));
    }
}
