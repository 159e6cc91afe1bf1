//! Resource requests of pods and capacity of nodes.

use std::collections::BTreeMap;

use quantity::Quantity;
use serde_json::{Map, Value};

use crate::object::{list, map, text};

/// Quantities by resource name, in billionths of a unit.
pub(crate) type Amounts = BTreeMap<String, i128>;

/// Sum of the requests of a node's pods.
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

/// Effective requests of a pod: the sum of its containers or its largest init container, plus
/// overhead.
pub(crate) fn requests(pod: &Value) -> Amounts {
    let mut total = Amounts::new();
    for container in list(pod, "/spec/containers") {
        add(&mut total, &requests_of(container));
    }
    let mut beside = Amounts::new();
    for container in list(pod, "/spec/initContainers") {
        let requests = requests_of(container);
        if text(container, "/restartPolicy") == "Always" {
            add(&mut total, &requests);
            add(&mut beside, &requests);
        } else {
            let mut peak = beside.clone();
            add(&mut peak, &requests);
            for (name, amount) in peak {
                let entry = total.entry(name).or_default();
                *entry = amount.max(*entry);
            }
        }
    }
    add(&mut total, &amounts(map(pod, "/spec/overhead")));
    total
}

fn requests_of(container: &Value) -> Amounts {
    let mut requests = amounts(map(container, "/resources/limits"));
    requests.extend(amounts(map(container, "/resources/requests")));
    requests
}

/// Parses a map of quantities such as `status.allocatable`.
pub(crate) fn amounts(quantities: Option<&Map<String, Value>>) -> Amounts {
    let quantities = quantities.into_iter().flatten();
    quantities
        .map(|(name, value)| (name.clone(), amount(value)))
        .collect()
}

/// Parses a quantity; 0 if it is invalid.
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
    fn limits_are_the_default_of_requests() {
        let pod = json!({"spec": {"containers": [{"resources": {"limits": {"devices.kubevirt.io/kvm": "1"}}}]}});
        assert_eq!(requests(&pod)["devices.kubevirt.io/kvm"], amount(&json!(1)));
    }
}
