//! The names of what a Machine becomes.

/// The key of user data in the Secret we make; KubeVirt looks for it.
pub const USER_DATA_KEY: &str = "userdata";

/// The key of network data in the Secret we make; KubeVirt looks for it.
pub const NETWORK_DATA_KEY: &str = "networkdata";

/// The volume that carries cloud-init's data into the guest.
pub const CLOUD_INIT_VOLUME: &str = "cloudinitdisk";

/// The interface of a machine that names no networks.
pub const POD_INTERFACE: &str = "default";

/// The disk that a size brings.
pub const ROOT_DISK: &str = "root";

/// The claim, or DataVolume, behind a disk.
pub fn claim(machine: &str, disk: &str) -> String {
    format!("{machine}-{disk}")
}

/// The Secret with what cloud-init finds in the guest.
pub fn cloud_init_secret(machine: &str) -> String {
    format!("{machine}-cloud-init")
}

/// Whether `name` is a DNS label (RFC 1123), as the names of disks are.
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
