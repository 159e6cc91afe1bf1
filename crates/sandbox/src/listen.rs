//! The cluster on the loopback interface.

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

/// Where a sandbox is to be found.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address; port 0 for a free one. Only loopback addresses are taken.
    pub listen: SocketAddr,
    /// Where the kubeconfig is written.
    pub kubeconfig: PathBuf,
    /// Where the state is kept.
    pub keep: Option<PathBuf>,
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot be reached, or its files not be written.
    #[error(transparent)]
    Serve(#[from] serve::Error),
    /// The state of the last one cannot be used.
    #[error("cannot keep the state: {0}")]
    Keep(#[from] JournalError),
    /// A definition is not one that the API server takes.
    #[error(transparent)]
    Definition(#[from] ApplyError),
    /// The folder for the state cannot be used.
    #[error("cannot use the folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Two that write the same state would destroy it.
    #[error("another sandbox is using the folder {}: end it first, or keep this one's state elsewhere", .0.display())]
    InUse(PathBuf),
}

/// The right to use a folder, held until the process ends.
#[derive(Debug)]
struct Lock {
    _file: File,
}

impl Lock {
    fn take(folder: &Path) -> Result<Self, StartError> {
        let failed = |source| StartError::Folder {
            path: folder.to_owned(),
            source,
        };
        // It stays behind: who removes a lock file may remove that of the next one.
        let mut options = File::options();
        // Where others may write to the folder, a link could lead to a file of theirs, or of ours.
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
    stopping: CancellationToken,
    server: JoinHandle<()>,
    /// Let go of when all that is kept has been written.
    _lock: Option<Lock>,
}

impl Sandbox {
    /// Starts a cluster and serves it. When this returns, kubectl works.
    pub async fn start(setup: Setup, options: &Options) -> Result<Self, StartError> {
        let (certificates, lock) = match &options.keep {
            None => (Certificates::generate()?, None),
            Some(folder) => {
                make_private(folder)?;
                let lock = Lock::take(folder)?;
                let certificates =
                    Certificates::load_or_generate(&folder.join("certificates.pem"))?;
                (certificates, Some(lock))
            }
        };
        let server = Server::bind(options.listen, &certificates, Limits::default()).await?;
        let address = server.address();
        let secret = certificates.to_pem().into_bytes();
        let setup = Setup {
            // Nobody can guess the key, and no two starts share a moment.
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
            stopping,
            server: serving,
            _lock: lock,
        })
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the kubeconfig is.
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Ends it: no more requests, then the actors, then what is kept; the kubeconfig is removed.
    pub async fn stop(self) -> Result<(), JournalError> {
        self.stopping.cancel();
        let ended = self.cluster.stop().await;
        // A connection's task that has panicked has said so already.
        let _ = self.server.await;
        if let Err(error) = self.kubeconfig.remove() {
            tracing::warn!(%error, "the kubeconfig stays");
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

/// The state holds Secrets and keys: the folder is for its owner alone.
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
