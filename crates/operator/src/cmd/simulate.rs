use std::path::PathBuf;

use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DynamicObject, ListParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use sandbox::{
    KubeVirtMode, World,
    virt_api::{self, VirtApi},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Outcome, sandbox::Behaviour};
use crate::{
    report::Report,
    services::{Identity, are_reachable, serve, virt_api_handler},
};

/// Namespace that KubeVirt is installed in.
const NAMESPACE: &str = "kubevirt";
/// Secret with virt-api's certificate, as the install strategies of all releases name it.
const CERTIFICATE: &str = "kubevirt-virt-api-certs";

/// Act as nodes, storage and KubeVirt beside an API server that has none
///
/// The actors of the sandbox, against a kube-apiserver without controllers, such as one from
/// envtest. It is refused where nodes are registered that are not of its making: there, real
/// kubelets and a real KubeVirt do this work.
///
/// Exit status: 0 it was ended by Ctrl-C, 1 it could not go on, 2 something could not be read.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  kubevirt-operator simulate --kubeconfig envtest.kubeconfig --speed instant")]
pub(crate) struct Args {
    /// The kubeconfig of the API server
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,

    /// The context in it, if not the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    #[command(flatten)]
    behaviour: Behaviour,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let faults = match self.behaviour.faults() {
            Ok(faults) => faults,
            Err(error) => {
                report.error(error);
                return Outcome::Unreadable;
            }
        };
        let kubeconfig = match Kubeconfig::read_from(&self.kubeconfig) {
            Ok(kubeconfig) => kubeconfig,
            Err(error) => {
                report.error(format_args!("{}: {error}", self.kubeconfig.display()));
                return Outcome::Unreadable;
            }
        };
        let runtime = match super::runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                report.error(format_args!("cannot start: {error}"));
                return Outcome::Problems;
            }
        };
        let ended = runtime.block_on(async {
            let client = connect(kubeconfig, self.context).await?;
            refuse_real_nodes(&client).await?;
            let world = World {
                speed: self.behaviour.speed,
                nodes: self.behaviour.nodes,
                faults,
                ..World::new(client)
            };
            let token = CancellationToken::new();
            let virt_api = serve_virt_api(&world, token.clone()).await;
            let actors = tokio::spawn(sandbox::run_actors(world, token.clone()));
            eprintln!("Acting as nodes, storage and KubeVirt. Ctrl-C ends it.");
            let ended = super::signal().await.map_err(|error| error.to_string());
            token.cancel();
            // A task that panicked has said so already.
            let _ = actors.await;
            if let Some(virt_api) = virt_api {
                let _ = virt_api.await;
            }
            ended
        });
        match ended {
            Ok(()) => Outcome::Fine,
            Err(error) => {
                report.error(error);
                Outcome::Problems
            }
        }
    }
}

/// Answers as virt-api at the address of its Service, once KubeVirt is installed by its operator: the
/// API server asks virt-api about the instance types and VirtualMachines that it admits.
async fn serve_virt_api(world: &World, token: CancellationToken) -> Option<JoinHandle<()>> {
    if !are_reachable(&world.client).await {
        eprintln!(
            "Services of this API server have no addresses on this machine: nobody answers as virt-api. \
             Start it with --service-cluster-ip-range=127.96.0.0/16 and run this as root if a KubeVirt \
             operator is to install KubeVirt."
        );
        return None;
    }
    let virt_api = VirtApi::of(&World {
        kubevirt: KubeVirtMode::Managed,
        ..world.clone()
    });
    Some(tokio::spawn(serve(
        world.client.clone(),
        (NAMESPACE.to_owned(), virt_api::NAME.to_owned()),
        Identity::Secret(CERTIFICATE),
        virt_api_handler(virt_api),
        token,
    )))
}

async fn connect(kubeconfig: Kubeconfig, context: Option<String>) -> Result<Client, String> {
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| error.to_string())?;
    Client::try_from(config).map_err(|error| error.to_string())
}

/// A cluster with kubelets of its own must not be acted in.
async fn refuse_real_nodes(client: &Client) -> Result<(), String> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
    let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let nodes = nodes
        .list(&ListParams::default())
        .await
        .map_err(|error| error.to_string())?;
    let foreign = nodes
        .iter()
        .find(|node| !node.labels().contains_key(sandbox::NODE_LABEL));
    match foreign {
        None => Ok(()),
        Some(node) => Err(format!(
            "this cluster has a node of its own, {}: simulate is for API servers without nodes",
            node.name_any()
        )),
    }
}
