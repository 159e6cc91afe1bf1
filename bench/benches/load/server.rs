//! API server under load, and the actors that play nodes, storage and KubeVirt.

use std::{io::Write as _, path::Path, process::Command};

use kube::Client;
use runtime::client::connect;
use sandbox::serve::{Certificates, Kubeconfig, Limits, Server as TlsServer};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{arguments::ServerChoice, process::Process, simulated};

/// The argument with which this program serves the sandbox.
pub const SERVE: &str = "serve-sandbox";
const READY: &str = "the sandbox is ready";

/// API server with its actors, which end on drop.
pub struct Server {
    _process: Process,
    _folder: TempDir,
    config: kube::Config,
}

impl Server {
    /// Starts the server, if it is the sandbox, and the actors, with room for this many Machines.
    pub async fn start(choice: &ServerChoice, machines: usize) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let (process, kubeconfig) = match choice {
            ServerChoice::Sandbox => {
                let kubeconfig = folder.path().join("kubeconfig");
                let mut command = Process::operator(SERVE);
                command.arg(&kubeconfig).arg(machines.to_string());
                let mut process = Process::spawn(&mut command);
                process.line(READY).await;
                (process, kubeconfig)
            }
            ServerChoice::Kubeconfig(path) => {
                let client = Client::try_from(config(path).await).expect("the kubeconfig is valid");
                simulated::prepare(&client, machines).await;
                let mut command: Command = Process::operator("simulate");
                command.arg("--kubeconfig").arg(path);
                command.args(["--nodes", "0", "--speed", "instant"]);
                let mut process = Process::spawn(&mut command);
                process.line("Simulating").await;
                simulated::until_served(&client, "/apis/kubevirt.io/v1/virtualmachines").await;
                (process, path.clone())
            }
        };
        Self {
            config: config(&kubeconfig).await,
            _process: process,
            _folder: folder,
        }
    }

    pub fn config(&self) -> &kube::Config {
        &self.config
    }
}

async fn config(kubeconfig: &Path) -> kube::Config {
    let paths = [kubeconfig.to_owned()];
    let connected = connect(&paths).await;
    connected.unwrap_or_else(|error| panic!("{error}"))
}

/// Serves a sandbox until the process is killed.
pub fn serve(kubeconfig: &Path, machines: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime needs nothing").block_on(async {
        let cluster = simulated::start(machines).await;
        let api = cluster.server();
        let certificates = Certificates::generate().expect("certificates are issued");
        let address = (std::net::Ipv4Addr::LOCALHOST, 0).into();
        let server = TlsServer::bind(address, &certificates, Limits::default())
            .await
            .expect("there is a free port");
        Kubeconfig {
            address: server.address(),
            authority_pem: certificates.authority_pem(),
            token: api.admin_token(),
            namespace: "default",
        }
        .write(kubeconfig)
        .expect("the kubeconfig is written");
        let _ = writeln!(std::io::stderr(), "{READY}");
        server.serve(api.by_token(), CancellationToken::new()).await;
    });
}
