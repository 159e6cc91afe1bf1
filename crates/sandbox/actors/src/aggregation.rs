//! Availability of APIServices, as kube-aggregator reports it.
//!
//! A Service counts as reachable if it has a ready pod; no connection is made.

use serde_json::{Value, json};

use crate::{
    Actor, Caches, Context, Key, Kind,
    kind::{API_SERVICE, POD, SERVICE},
    object::{is_deleted, is_true, list, map, name, namespace, number, set_condition, text},
    workloads::selects,
};

/// A kube-apiserver has its own controller of APIServices.
#[derive(Clone, Copy, Debug)]
pub struct ApiServices;

impl Actor for ApiServices {
    fn name(&self) -> &'static str {
        "kube-apiserver"
    }

    fn watches(&self) -> &[Kind] {
        &[API_SERVICE, SERVICE, POD]
    }

    fn keys(&self, kind: Kind, object: &Value, caches: &Caches) -> Vec<Key> {
        if kind == API_SERVICE {
            return vec![Key::of(object)];
        }
        let concerned = caches.all(API_SERVICE).filter(|api| {
            let behind = (
                text(api, "/spec/service/namespace"),
                text(api, "/spec/service/name"),
            );
            let is_near = behind.0 == namespace(object);
            is_near && (kind == POD || behind.1 == name(object))
        });
        concerned.map(|api| Key::of(api)).collect()
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let Some(api) = ctx.observed(API_SERVICE) else {
            return;
        };
        if is_deleted(&api) {
            return;
        }
        let (is_available, reason, message) = availability(ctx.caches, &api);
        let condition = json!({
            "type": "Available",
            "status": if is_available { "True" } else { "False" },
            "reason": reason,
            "message": message,
        });
        let mut conditions = list(&api, "/status/conditions").to_vec();
        set_condition(&mut conditions, condition, ctx.now);
        ctx.status(API_SERVICE, &api, json!({"conditions": conditions}));
    }
}

fn availability(caches: &Caches, api: &Value) -> (bool, &'static str, String) {
    let behind = (
        text(api, "/spec/service/namespace"),
        text(api, "/spec/service/name"),
    );
    if behind.1.is_empty() {
        let message = "Local APIServices are always available";
        return (true, "Local", message.to_owned());
    }
    let service = format!("service/{} in {:?}", behind.1, behind.0);
    let Some(found) = caches.find(SERVICE, behind.0, behind.1) else {
        return (
            false,
            "ServiceNotFound",
            format!("{service} is not present"),
        );
    };
    let port = number(api, "/spec/service/port").unwrap_or(443);
    let mut ports = list(found, "/spec/ports").iter();
    let Some(port_name) = ports
        .find(|one| number(one, "/port") == Some(port))
        .map(|port| text(port, "/name"))
    else {
        let message = format!("{service} is not listening on port {port}");
        return (false, "ServicePortError", message);
    };
    let selector = map(found, "/spec/selector").filter(|labels| !labels.is_empty());
    let is_served = selector.is_some_and(|labels| {
        let selector = json!({"matchLabels": labels});
        caches
            .within(POD, behind.0)
            .any(|pod| is_true(pod, "Ready") && !is_deleted(pod) && selects(&selector, pod))
    });
    if is_served {
        (true, "Passed", "all checks passed".to_owned())
    } else {
        let message =
            format!("endpointslices for {service} have no addresses with port name {port_name:?}");
        (false, "MissingEndpoints", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    fn api_service() -> Value {
        json!({
            "metadata": {"name": "v1.a"},
            "spec": {"service": {"namespace": "n", "name": "s"}},
        })
    }

    fn shown(fixture: &mut Fixture) -> (String, String, String) {
        fixture.settle(&ApiServices, &Key::cluster("v1.a"));
        let api = fixture.get(API_SERVICE, "", "v1.a");
        let field = |field: &str| text(&api, &format!("/status/conditions/0/{field}")).to_owned();
        (field("status"), field("reason"), field("message"))
    }

    #[test]
    fn an_apiservice_is_available_while_its_service_has_a_ready_pod() {
        let mut fixture = Fixture::of([(API_SERVICE, api_service())]);
        let (status, reason, message) = shown(&mut fixture);
        assert_eq!(
            (status.as_str(), reason.as_str()),
            ("False", "ServiceNotFound")
        );
        assert_eq!(message, "service/s in \"n\" is not present");

        let spec = json!({"selector": {"app": "a"}, "ports": [{"port": 443}]});
        fixture.put(
            SERVICE,
            json!({"metadata": {"namespace": "n", "name": "s"}, "spec": spec}),
        );
        assert_eq!(shown(&mut fixture).1, "MissingEndpoints");

        let mut pod = json!({
            "metadata": {"namespace": "n", "name": "p", "labels": {"app": "a"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        fixture.put(POD, pod.clone());
        assert_eq!(shown(&mut fixture).1, "Passed");

        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        fixture.put(POD, pod);
        assert_eq!(shown(&mut fixture).1, "MissingEndpoints");
    }

    #[test]
    fn a_wrong_port_and_a_local_apiservice_have_their_own_reasons() {
        let mut fixture = Fixture::of([(API_SERVICE, api_service())]);
        let spec = json!({"selector": {"app": "a"}, "ports": [{"port": 80}]});
        fixture.put(
            SERVICE,
            json!({"metadata": {"namespace": "n", "name": "s"}, "spec": spec}),
        );
        assert_eq!(shown(&mut fixture).1, "ServicePortError");
        fixture.put(
            API_SERVICE,
            json!({"metadata": {"name": "v1.a"}, "spec": {}}),
        );
        assert_eq!(shown(&mut fixture).1, "Local");
    }
}
