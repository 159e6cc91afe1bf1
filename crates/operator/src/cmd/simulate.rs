//! Command `simulate`.

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

use super::{Outcome, sandbox::Behavior};
use crate::{
    report::Report,
    services::{Identity, are_reachable, serve, virt_api_handler},
};

/// Namespace that KubeVirt is installed in.
const NAMESPACE: &str = "kubevirt";
/// Secret with virt-api's certificate, as the install strategies of all releases name it.
const CERTIFICATE: &str = "kubevirt-virt-api-certs";

/// Simulate nodes, storage and KubeVirt for an API server without them
///
/// Runs the actors of the sandbox against a kube-apiserver without controllers, such as one from
/// envtest. It refuses to run in a cluster with other nodes, where real kubelets and a real KubeVirt do
/// this work.
///
/// Exit status: 0 terminated by Ctrl-C, 1 fatal error, 2 a file cannot be read.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  kubevirt-operator simulate --kubeconfig envtest.kubeconfig --speed instant")]
pub(crate) struct Args {
    /// Path of the kubeconfig of the API server
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,

    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    #[command(flatten)]
    behavior: Behavior,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let Some(faults) = report.ok(self.behavior.faults()) else {
            return Outcome::Unreadable;
        };
        let kubeconfig = match Kubeconfig::read_from(&self.kubeconfig) {
            Ok(kubeconfig) => kubeconfig,
            Err(error) => {
                report.error(format_args!("{}: {error}", self.kubeconfig.display()));
                return Outcome::Unreadable;
            }
        };
        let Some(runtime) = report.ok(super::runtime()) else {
            return Outcome::Problems;
        };
        let ended = runtime.block_on(async {
            let client = connect(kubeconfig, self.context).await?;
            refuse_real_nodes(&client).await?;
            let world = World {
                speed: self.behavior.speed,
                nodes: self.behavior.nodes,
                faults,
                ..World::new(client)
            };
            let token = CancellationToken::new();
            let virt_api = serve_virt_api(&world, token.clone()).await;
            let actors = tokio::spawn(sandbox::run_actors(world, token.clone()));
            eprintln!("Simulating nodes, storage and KubeVirt. Press Ctrl-C to stop.");
            let ended = super::signal().await.map_err(|error| error.to_string());
            token.cancel();
            // A panic is already reported.
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

/// Serves virt-api at the address of its Service, once the operator has installed KubeVirt: the API server
/// calls its admission webhooks.
async fn serve_virt_api(world: &World, token: CancellationToken) -> Option<JoinHandle<()>> {
    if !are_reachable(&world.client).await {
        eprintln!(
            "virt-api is not served, because the Service addresses of this API server are not local. To \
             install KubeVirt with its operator, start the API server with \
             --service-cluster-ip-range=127.96.0.0/16 and run this command as root."
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

/// Refuses clusters with real kubelets.
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
            "the cluster has node {}, which is not simulated: use an API server without nodes",
            node.name_any()
        )),
    }
}
