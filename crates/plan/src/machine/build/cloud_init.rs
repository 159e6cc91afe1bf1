//! Secret with the cloud-init data of a resolved Machine.

use std::collections::BTreeMap;

use api::core::Secret;
use k8s_openapi::ByteString;

use super::metadata;
use crate::{
    machine::{CloudInit, NetworkData, ResolvedMachine, UserData, ssh_keys::with_keys},
    naming,
};

/// A Secret, because KubeVirt refuses more than 2048 bytes in the VirtualMachine, which more users may read.
pub(super) fn secret(machine: &ResolvedMachine) -> Option<Secret> {
    let CloudInit {
        user_data,
        network_data,
        ssh_keys,
        type_: _,
    } = machine.cloud_init.as_ref()?;
    let mut data = BTreeMap::new();
    if let Some(UserData::Content(content)) = user_data {
        data.insert(
            naming::USER_DATA_KEY.to_owned(),
            ByteString(with_keys(content, ssh_keys)),
        );
    }
    if let Some(
        NetworkData::Content(network_data)
        | NetworkData::Generated(network_data)
        | NetworkData::Recorded(network_data),
    ) = network_data
    {
        data.insert(
            naming::NETWORK_DATA_KEY.to_owned(),
            ByteString(network_data.clone().into_bytes()),
        );
    }
    let name = naming::cloud_init_secret(&machine.identity.name);
    Some(Secret::new(metadata(&machine.identity, name), data))
}
