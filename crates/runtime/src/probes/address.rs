//! Bind addresses, as in settings.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// Address that a server binds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    Off,
    /// All addresses of the node.
    Everywhere(u16),
    At(SocketAddr),
}

/// Text that is not a [`BindAddress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be :PORT, IP:PORT or [IPv6]:PORT, or 0 to turn it off")]
pub struct BindAddressError;

impl BindAddress {
    /// Addresses to try in this order.
    pub(super) fn candidates(self) -> Vec<SocketAddr> {
        match self {
            Self::Off => Vec::new(),
            // The first accepts both families if the kernel has IPv6.
            Self::Everywhere(port) => vec![
                (IpAddr::from(Ipv6Addr::UNSPECIFIED), port).into(),
                (IpAddr::from(Ipv4Addr::UNSPECIFIED), port).into(),
            ],
            Self::At(address) => vec![address],
        }
    }
}

impl FromStr for BindAddress {
    type Err = BindAddressError;

    fn from_str(text: &str) -> Result<Self, BindAddressError> {
        match text {
            "" | "0" => Ok(Self::Off),
            _ => match text.strip_prefix(':') {
                // u16 would accept a sign.
                Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port
                    .parse()
                    .map(Self::Everywhere)
                    .map_err(|_| BindAddressError),
                Some(_) => Err(BindAddressError),
                None => text.parse().map(Self::At).map_err(|_| BindAddressError),
            },
        }
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::Everywhere(port) => write!(f, ":{port}"),
            Self::At(address) => address.fmt(f),
        }
    }
}
