//! What a diagnosis is computed from, out of the listed objects.

use http::Request;
use plan::{diagnosis::Observed, machine::Provider};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    failure::Failure,
    family::{Fleet, vm_name},
    read::{name, namespace, text},
    session::Session,
};

/// The objects of a Machine, decoded.
pub(super) fn observed(
    fleet: &Fleet,
    machine: &Value,
    provider: &Provider,
    virt_api: Option<&str>,
) -> Result<Observed, Failure> {
    let members = fleet.members(machine);
    Ok(Observed {
        machine: decode(machine)?,
        provider: provider.clone(),
        vm: members.vm.map(decode).transpose()?,
        instance: members.instance.map(decode).transpose()?,
        launchers: decode_all(&members.launchers)?,
        importers: decode_all(&members.importers)?,
        claims: decode_all(&members.claims)?,
        volumes: decode_all(&members.volumes)?,
        networks: decode_all(&members.networks)?,
        nodes: decode_all(&fleet.nodes.iter().collect::<Vec<_>>())?,
        migrations: decode_all(&members.migrations)?,
        snapshots: decode_all(&members.snapshots)?,
        restores: decode_all(&members.restores)?,
        events: decode_all(&members.events())?,
        components: decode_all(&fleet.components.iter().collect::<Vec<_>>())?,
        is_kubevirt_installed: fleet.is_kubevirt_installed,
        virt_api_failure: virt_api.map(str::to_owned),
    })
}

fn decode<T: DeserializeOwned>(object: &Value) -> Result<T, Failure> {
    decode::from_value_ref(object).map_err(|error| {
        Failure::Other(format!(
            "{} {}/{} cannot be decoded by this version of the command: {error}",
            text(object, "/kind"),
            namespace(object),
            name(object)
        ))
    })
}

fn decode_all<T: DeserializeOwned>(objects: &[&Value]) -> Result<Vec<T>, Failure> {
    objects.iter().map(|object| decode(object)).collect()
}

/// Why virt-api does not answer; none if it does, or if the API server does not let the user ask.
pub(super) async fn virt_api(session: &Session, fleet: &Fleet) -> Option<String> {
    let machine = fleet
        .machines
        .first()
        .filter(|_| fleet.is_kubevirt_installed)?;
    let path = format!(
        "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachineinstances/{}/guestosinfo",
        namespace(machine),
        vm_name(machine)
    );
    let request = Request::get(path).body(Vec::new()).ok()?;
    match session.client.request_text(request).await {
        // Of all others virt-api, or the API server before it, is the author.
        Err(kube::Error::Api(status)) if status.code == 503 => {
            let message = match status.message.as_str() {
                "" => "service unavailable",
                message => message,
            };
            Some(format!("subresources.kubevirt.io: {message}"))
        }
        _ => None,
    }
}
