//! Kubeconfig file of the server.

use std::{
    fs::{self, File},
    io::{self, Read},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{Error, private_file};

#[derive(Clone, Copy)]
pub struct Kubeconfig<'a> {
    pub address: SocketAddr,
    /// CA certificate in PEM.
    pub authority_pem: &'a str,
    pub token: &'a str,
    /// Default namespace.
    pub namespace: &'a str,
}

/// First line of generated files, by which they are recognized.
const HEADER: &str = "# Leads to a sandbox of kubevirt-operator; removed when it ends.\n";
const NAME: &str = "sandbox";

impl Kubeconfig<'_> {
    pub fn to_value(&self) -> Value {
        let mut cluster = json!({
            "server": format!("https://{}", self.address),
            "certificate-authority-data": STANDARD.encode(self.authority_pem),
        });
        let in_certificate = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        if !in_certificate.contains(&self.address.ip()) {
            cluster["tls-server-name"] = "localhost".into();
        }
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": NAME, "cluster": cluster}],
            "users": [{"name": NAME, "user": {"token": self.token}}],
            "contexts": [{"name": NAME, "context": {
                "cluster": NAME, "user": NAME, "namespace": self.namespace,
            }}],
            "current-context": NAME,
        })
    }

    /// Writes the file atomically and readable by its owner only. Creates missing directories.
    /// Refuses to replace a file that the sandbox did not write.
    pub fn write(&self, path: &Path) -> Result<KubeconfigFile, Error> {
        let failed = |source| Error::Write {
            path: path.to_owned(),
            source,
        };
        let yaml = serde_saphyr::to_string(&self.to_value())
            .map_err(|error| failed(io::Error::other(error)))?;
        let contents = format!("{HEADER}{yaml}");
        if is_foreign(path).map_err(failed)? {
            return Err(Error::Foreign(path.to_owned()));
        }
        if is_in_use(path, self.address) {
            return Err(Error::InUse(path.to_owned()));
        }
        private_file::write(path, contents.as_bytes()).map_err(failed)?;
        Ok(KubeconfigFile {
            path: path.to_owned(),
            contents,
        })
    }
}

pub struct KubeconfigFile {
    path: PathBuf,
    contents: String,
}

impl std::fmt::Debug for KubeconfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Written").field(&self.path).finish()
    }
}

impl KubeconfigFile {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file unless its content changed: another sandbox may have replaced it.
    pub fn remove(self) -> io::Result<()> {
        match read_start(&self.path, self.contents.len() + 1) {
            Ok(contents) if contents == self.contents.as_bytes() => fs::remove_file(&self.path),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn is_foreign(path: &Path) -> io::Result<bool> {
    match read_start(path, HEADER.len()) {
        Ok(start) => Ok(!start.is_empty() && start != HEADER.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the sandbox of an existing kubeconfig still listens.
fn is_in_use(path: &Path, own: SocketAddr) -> bool {
    const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
    let Ok(contents) = fs::read_to_string(path) else {
        return false;
    };
    contents
        .lines()
        .filter_map(|line| line.trim().strip_prefix("server: https://"))
        .filter_map(|address| address.trim_matches('"').parse::<SocketAddr>().ok())
        .filter(|address| address.ip().is_loopback() && *address != own)
        .any(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
}

fn read_start(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?
        .take(u64::try_from(limit).unwrap_or(u64::MAX))
        .read_to_end(&mut start)?;
    Ok(start)
}
