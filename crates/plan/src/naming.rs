//! Names of the objects that the operator creates for a Machine.

/// Key of the user data in the cloud-init Secret; KubeVirt expects this name.
pub const USER_DATA_KEY: &str = "userdata";

/// Key of the network data in the cloud-init Secret; KubeVirt expects this name.
pub const NETWORK_DATA_KEY: &str = "networkdata";

/// Volume that carries the cloud-init data into the guest.
pub const CLOUD_INIT_VOLUME: &str = "cloudinitdisk";

/// Interface of a Machine without `spec.networks`.
pub const POD_INTERFACE: &str = "default";

/// Bridge of the nodes that VLANs of NetworkNamespaces are on, as in all of the Viti stack.
pub const VLAN_BRIDGE: &str = "br0";

/// Disk that comes with a template or instance type.
pub const ROOT_DISK: &str = "root";

/// Disk with the installer image.
pub const INSTALLER_DISK: &str = "iso";

/// Name of the claim or DataVolume behind a disk.
pub fn claim(machine: &str, disk: &str) -> String {
    format!("{machine}-{disk}")
}

/// Name of the Secret with the cloud-init data.
pub fn cloud_init_secret(machine: &str) -> String {
    format!("{machine}-cloud-init")
}

/// Name of the NetworkAttachmentDefinition of a VLAN, and of the interface on it; 0 is untagged. Other
/// programs of the Viti stack use the same names.
pub fn vlan(id: u16) -> String {
    format!("vlan{id}")
}

/// `spec.name` of a Machine's address ledger: at most 32 letters, digits, `-` and `_`.
pub fn ledger_short_name(machine: &str) -> String {
    let short = machine.replace('.', "-");
    let short: String = short.chars().take(32).collect();
    // The schema requires two characters.
    if short.len() < 2 {
        format!("m-{short}")
    } else {
        short
    }
}

/// Whether `name` is the name of a label or an annotation, with or without a prefix.
pub fn is_qualified_name(name: &str) -> bool {
    let (prefix, name) = match name.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, name),
    };
    prefix.is_none_or(is_dns_name) && !name.is_empty() && is_label_value(name)
}

/// Whether `value` is the value of a label.
pub fn is_label_value(value: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_alphanumeric();
    let bytes = value.as_bytes();
    let has_good_ends =
        bytes.first().is_some_and(alphanumeric) && bytes.last().is_some_and(alphanumeric);
    bytes.is_empty()
        || bytes.len() <= 63
            && has_good_ends
            && bytes
                .iter()
                .all(|it| alphanumeric(it) || b"-_.".contains(it))
}

/// Whether `name` is a DNS label (RFC 1123), as disk names must be.
pub fn is_dns_label(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

/// Whether `name` is a DNS name (RFC 1123): labels joined by dots.
pub fn is_dns_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}
