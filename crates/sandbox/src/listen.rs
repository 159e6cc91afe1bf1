//! Cluster served on the loopback interface.

use std::{
    fs::{File, TryLockError},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use apiserver::{
    JournalError,
    serve::{self, Certificates, Kubeconfig, KubeconfigFile, Limits, Server},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{ApplyError, Cluster, Setup};

#[derive(Clone, Debug)]
pub struct Options {
    /// Loopback only; port 0 for a free port.
    pub listen: SocketAddr,
    /// Path to write the kubeconfig to.
    pub kubeconfig: PathBuf,
    /// Directory of the stored state.
    pub keep: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Serve(#[from] serve::Error),
    #[error("cannot use the stored state: {0}")]
    Keep(#[from] JournalError),
    /// The API server rejected a CustomResourceDefinition.
    #[error(transparent)]
    Definition(#[from] ApplyError),
    #[error("cannot use the folder {}: {source}", path.display())]
    Folder {
        path: PathBuf,
        source: std::io::Error,
    },
    /// Two sandboxes that write the same state would corrupt it.
    #[error("another sandbox is using the folder {}: stop it first, or use another folder", .0.display())]
    InUse(PathBuf),
}

/// Exclusive use of a directory until the process ends.
#[derive(Debug)]
struct Lock {
    _file: File,
}

impl Lock {
    fn acquire(folder: &Path) -> Result<Self, StartError> {
        let failed = |source| StartError::Folder {
            path: folder.to_owned(),
            source,
        };
        // Never deleted: that could delete the lock file of the next sandbox.
        let mut options = File::options();
        // A directory that others can write to may contain a link to another file.
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW);
        let file = options.open(folder.join("lock")).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StartError::InUse(folder.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

/// A cluster that kubectl can reach.
#[derive(Debug)]
pub struct Sandbox {
    cluster: Cluster,
    address: SocketAddr,
    kubeconfig: KubeconfigFile,
    /// CA certificate in PEM.
    authority: String,
    stopping: CancellationToken,
    server: JoinHandle<()>,
    /// Released after the state is written.
    _lock: Option<Lock>,
}

impl Sandbox {
    /// Starts and serves a cluster. kubectl works when this returns.
    pub async fn start(setup: Setup, options: &Options) -> Result<Self, StartError> {
        let (certificates, lock) = match &options.keep {
            None => (Certificates::generate()?, None),
            Some(folder) => {
                make_private(folder)?;
                let lock = Lock::acquire(folder)?;
                let certificates =
                    Certificates::load_or_generate(&folder.join("certificates.pem"))?;
                (certificates, Some(lock))
            }
        };
        let server = Server::bind(options.listen, &certificates, Limits::default()).await?;
        let address = server.address();
        let secret = certificates.to_pem().into_bytes();
        let setup = Setup {
            // Unpredictable, and different for every start.
            seed: seed(&secret, setup.start),
            secret,
            ca: certificates.authority_pem().to_owned(),
            ..setup
        };
        let cluster = Cluster::start(setup, options.keep.as_deref()).await?;
        let stopping = CancellationToken::new();
        let service = cluster.server().by_token();
        let serving = tokio::spawn(server.serve(service, stopping.clone()));
        let kubeconfig = Kubeconfig {
            address,
            authority_pem: certificates.authority_pem(),
            token: cluster.server().admin_token(),
            namespace: "default",
        }
        .write(&options.kubeconfig)?;
        Ok(Self {
            cluster,
            address,
            kubeconfig,
            authority: certificates.authority_pem().to_owned(),
            stopping,
            server: serving,
            _lock: lock,
        })
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Kubeconfig with another token.
    pub fn kubeconfig_of(&self, token: &str) -> serde_json::Value {
        let kubeconfig = Kubeconfig {
            address: self.address,
            authority_pem: &self.authority,
            token,
            namespace: "default",
        };
        kubeconfig.to_value()
    }

    /// Stops serving, then the actors, then the API server, and deletes the kubeconfig.
    pub async fn stop(self) -> Result<(), JournalError> {
        self.stopping.cancel();
        let ended = self.cluster.stop().await;
        // The panic of a connection's task has already been printed.
        let _ = self.server.await;
        if let Err(error) = self.kubeconfig.remove() {
            tracing::warn!(%error, "cannot delete the kubeconfig");
        }
        ended
    }
}

fn seed(secret: &[u8], start: jiff::Timestamp) -> u64 {
    let mut hasher = DefaultHasher::new();
    secret.hash(&mut hasher);
    start.as_nanosecond().hash(&mut hasher);
    hasher.finish()
}

/// The state contains Secrets and keys: only its owner may read the directory.
fn make_private(folder: &Path) -> Result<(), StartError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|source| StartError::Folder {
        path: folder.to_owned(),
        source,
    })
}
