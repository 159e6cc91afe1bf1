//! HTTPS server on loopback, with certificates and a kubeconfig.
//!
//! [`Server`] listens on loopback addresses only and bounds connections, header sizes, and the
//! duration of handshakes and headers. [`Certificates`] are generated at the start or loaded from a
//! file. A [`Kubeconfig`] file is never readable by others.

mod certificates;
mod kubeconfig;
mod listener;
mod private_file;

pub use certificates::Certificates;
pub use kubeconfig::{Kubeconfig, KubeconfigFile};
pub use listener::{Limits, Server};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("the sandbox listens on loopback addresses only, such as 127.0.0.1:0, not on {0}")]
    NotLoopback(std::net::SocketAddr),
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: std::net::SocketAddr,
        source: std::io::Error,
    },
    #[error("cannot generate a certificate: {0}")]
    Generate(#[from] rcgen::Error),
    #[error("the stored certificate is invalid: {0}; delete the file to generate a new one")]
    InvalidCertificate(String),
    #[error("cannot read {}: {source}", path.display())]
    Read {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{} exists and was not written by the sandbox; choose another file or remove it",
        .0.display()
    )]
    Foreign(std::path::PathBuf),
    #[error(
        "{} belongs to a sandbox that is still running; stop it or choose another file",
        .0.display()
    )]
    InUse(std::path::PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Write {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests;
