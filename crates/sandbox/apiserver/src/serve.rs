//! The server on the network: TLS on loopback, and the kubeconfig that leads to it.
//!
//! [`Server`] listens on loopback addresses only, and holds what strangers can make it hold within
//! bounds: connections, header sizes, the time that handshakes and headers take. [`Certificates`]
//! are made at the start, or kept from one start to the next. A [`Kubeconfig`] is readable by its
//! owner only, from the moment that it exists.

mod certificates;
mod kubeconfig;
mod listener;
mod private_file;

pub use certificates::Certificates;
pub use kubeconfig::{Kubeconfig, KubeconfigFile};
pub use listener::{Limits, Server};

/// Why the server cannot be reached, or its files not be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Others could reach it.
    #[error("the sandbox listens on loopback addresses only, such as 127.0.0.1:0, not on {0}")]
    NotLoopback(std::net::SocketAddr),
    /// The address is taken, or not one of this machine.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Generate(#[from] rcgen::Error),
    /// A certificate that was kept cannot be used.
    #[error("the certificate that was kept cannot be used: {0}; without it, a new one is made")]
    InvalidCertificate(String),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is in the way.
    #[error(
        "{} is there already and was not written by the sandbox; name another file or remove it",
        .0.display()
    )]
    Foreign(std::path::PathBuf),
    /// Another sandbox is behind the file.
    #[error(
        "{} leads to a sandbox that is still running; end it, or name another file",
        .0.display()
    )]
    InUse(std::path::PathBuf),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests;
