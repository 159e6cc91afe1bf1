//! Command `sandbox`.

mod clusters;
mod operators;

use std::{
    io::{IsTerminal as _, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::StreamExt as _;
use sandbox::{
    KubeVirtMode, Options, Sandbox, Setup, Speed,
    faults::Faults,
    view::{self, View},
};

use self::clusters::Further;
use super::Outcome;
use crate::{
    documents::{self, Document, ReadError},
    report::{Report, printable},
};

/// Run a simulated cluster in this process, to use with kubectl
///
/// Runs a Kubernetes API server in memory, simulated nodes, storage, CDI and KubeVirt, and the operator.
/// Nothing is executed for real. It listens on the loopback interface only, writes a kubeconfig, and
/// shows changes until Ctrl-C.
///
/// Exit status: 0 terminated by Ctrl-C, 1 fatal error, 2 a file cannot be read.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator sandbox
  kubevirt-operator sandbox --no-operator
  kubevirt-operator sandbox --with-kubevirt
  kubevirt-operator sandbox --with-webhook
  kubevirt-operator sandbox --clusters 3
  kubevirt-operator sandbox --keep ~/my-cluster --speed real
  kubevirt-operator sandbox --apply manifests/ --faults faults.yaml")]
pub(crate) struct Args {
    /// Loopback address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Path of the kubeconfig to write; it is removed at the end
    #[arg(long, value_name = "PATH", default_value = "sandbox.kubeconfig")]
    kubeconfig: PathBuf,

    /// File or directory with YAML or JSON documents to apply at the start; can be repeated
    #[arg(long, value_name = "PATH")]
    apply: Vec<PathBuf>,

    /// Directory with the state of the cluster, to resume from at the next start
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Number of clusters: the first has the Machines and the operator, the others are named by KubevirtConfigs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    clusters: u8,

    /// Do not run the operator
    #[arg(long)]
    no_operator: bool,

    /// Install KubeVirt from a KubeVirt resource with its operator, instead of starting with it
    #[arg(long)]
    with_kubevirt: bool,

    /// Enable the operator's admission webhook
    #[arg(long, conflicts_with = "no_operator")]
    with_webhook: bool,

    #[command(flatten)]
    behavior: Behavior,
}

/// Behavior of the actors.
#[derive(clap::Args)]
pub(super) struct Behavior {
    /// Speed of the actors: as in a real cluster, twenty times as fast, or without delays
    #[arg(long, value_name = "real|fast|instant", default_value_t = Speed::Fast)]
    pub(super) speed: Speed,

    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(super) nodes: usize,

    /// File with faults: which objects fail, how and when (docs/sandbox.md)
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

impl Behavior {
    pub(super) fn faults(&self) -> Result<Faults, String> {
        let Some(path) = &self.faults else {
            return Ok(Faults::default());
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Faults::from_yaml(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let Some(faults) = report.ok(self.behavior.faults()) else {
            return Outcome::Unreadable;
        };
        let Some(objects) = read(&self.apply, report) else {
            return Outcome::Unreadable;
        };
        let Some(runtime) = report.ok(super::runtime()) else {
            return Outcome::Problems;
        };
        runtime.block_on(self.serve(faults, objects, report))
    }

    /// The cluster of the Machines.
    fn setup(&self, faults: Faults) -> Setup {
        let several = self.clusters > 1;
        Setup {
            speed: self.behavior.speed,
            nodes: self.behavior.nodes,
            faults,
            definitions: api::crds()
                .iter()
                .chain(several.then(api::kubevirt_config_crd).as_ref())
                .filter_map(|definition| serde_json::to_value(definition).ok())
                .collect(),
            start: jiff::Timestamp::now(),
            kubevirt: if self.with_kubevirt {
                KubeVirtMode::Managed
            } else {
                KubeVirtMode::BuiltIn
            },
            ..Setup::seeded(0)
        }
    }

    async fn serve(self, faults: Faults, objects: Vec<Document>, report: &mut Report) -> Outcome {
        let setup = self.setup(faults);
        let options = Options {
            listen: self.listen,
            kubeconfig: self.kubeconfig,
            keep: self.keep,
        };
        let further_setup = Setup {
            definitions: Vec::new(),
            kubevirt: KubeVirtMode::BuiltIn,
            ..setup.clone()
        };
        let Some(sandbox) = report.ok(Sandbox::start(setup, &options).await) else {
            return Outcome::Problems;
        };
        let client = sandbox.cluster().client();
        let mut outcome = Outcome::Fine;
        let mut further = Vec::new();
        for number in 2..=usize::from(self.clusters) {
            let setup = further_setup.clone();
            let started = Further::start_registered(number, setup, &options, &client);
            match started.await {
                Ok(cluster) => further.push(cluster),
                Err(error) => {
                    report.error(format_args!("cannot start cluster {number}: {error}"));
                    outcome = Outcome::Problems;
                }
            }
        }
        let mut operators = Vec::new();
        if self.with_kubevirt {
            match operators::kubevirt(sandbox.cluster(), self.behavior.speed).await {
                Ok(operator) => operators.push(operator),
                Err(error) => {
                    report.error(format_args!("cannot start the KubeVirt operator: {error}"));
                    outcome = Outcome::Problems;
                }
            }
        }
        if !self.no_operator {
            match operators::machines(sandbox.cluster(), self.with_webhook).await {
                Ok(operator) => operators.push(operator),
                Err(error) => {
                    report.error(format_args!("cannot start the operator: {error}"));
                    outcome = Outcome::Problems;
                }
            }
        }
        for document in objects {
            let origin = document.origin.clone();
            if let Err(error) = sandbox::apply(&client, document.value).await {
                report.error(format_args!("{origin}: {error}"));
                outcome = Outcome::Problems;
            }
        }
        greet(
            sandbox.kubeconfig(),
            &further,
            self.no_operator,
            self.with_kubevirt,
        );
        let shown = tokio::select! {
            shown = show(&client) => shown,
            ended = super::signal() => ended,
        };
        if let Err(error) = shown {
            report.error(format_args!(
                "cannot show the changes in the cluster: {error}"
            ));
            outcome = Outcome::Problems;
        }
        for operator in operators {
            operator.stop().await;
        }
        for cluster in further {
            if let Err(error) = cluster.stop().await {
                report.error(error);
                outcome = Outcome::Problems;
            }
        }
        if let Err(error) = sandbox.stop().await {
            report.error(error);
            outcome = Outcome::Problems;
        }
        outcome
    }
}

/// Documents at `paths`; none if one of them cannot be read.
fn read(paths: &[PathBuf], report: &mut Report) -> Option<Vec<Document>> {
    let mut objects = Vec::new();
    let mut complete = true;
    let mut failed = |error: ReadError| {
        report.error(error);
        complete = false;
    };
    for source in documents::sources(paths, false) {
        match source.and_then(|source| source.read()) {
            Ok(documents) => {
                for document in documents {
                    match document {
                        Ok(document) => objects.push(document),
                        Err(error) => failed(error),
                    }
                }
            }
            Err(error) => failed(error),
        }
    }
    complete.then_some(objects)
}

/// Prints instructions to standard output.
fn greet(kubeconfig: &Path, further: &[Further], no_operator: bool, with_kubevirt: bool) {
    let path = kubeconfig.display();
    let kubectl = format!("kubectl --kubeconfig {path}");
    let operator = if no_operator {
        format!(
            "No operator reconciles Machines; to run one, in another terminal:\n\n  \
             {kubectl} apply -f config/rbac\n  \
             kubevirt-operator run --kubeconfig {path} --log-format text\n\n\
             Then try:"
        )
    } else {
        "In another terminal, try:".to_owned()
    };
    let kubevirt = if with_kubevirt {
        format!("\n  {kubectl} get kubevirt -n kubevirt --watch")
    } else {
        String::new()
    };
    let further: Vec<String> = further
        .iter()
        .map(|cluster| {
            format!(
                "\n  kubectl --kubeconfig {} get vm   # of Machines with the annotation \
                 vitistack.io/kubevirt-config: {}",
                cluster.kubeconfig().display(),
                cluster.name
            )
        })
        .collect();
    let further = further.concat();
    // A closed pipe is no error.
    let _ = writeln!(
        std::io::stdout(),
        "The cluster is ready. Its kubeconfig is {path}. {operator}\n\n  \
         {kubectl} apply -f examples/machine-small.yaml\n  \
         {kubectl} get machines --watch\n  \
         {kubectl} get vm,vmi,pvc,pods -o wide{kubevirt}{further}\n\n\
         Ctrl-C ends it."
    );
}

/// Shows changes: as a table that is redrawn on a terminal, as lines otherwise.
async fn show(client: &kube::Client) -> std::io::Result<()> {
    const REDRAW: Duration = Duration::from_millis(100);
    let mut changes = std::pin::pin!(view::changes(client));
    let mut view = View::default();
    if !std::io::stdout().is_terminal() {
        while let Some(change) = changes.next().await {
            if view.update(&change) {
                writeln!(std::io::stdout(), "{}", printable(&change.line()))?;
            }
        }
        return Ok(());
    }
    let mut drawn = 0;
    while let Some(change) = changes.next().await {
        if !view.update(&change) {
            continue;
        }
        // Changes within this interval are drawn together.
        let redraw = tokio::time::sleep(REDRAW);
        tokio::pin!(redraw);
        loop {
            tokio::select! {
                () = &mut redraw => break,
                Some(change) = changes.next() => {
                    view.update(&change);
                }
            }
        }
        drawn = draw(&view, drawn)?;
    }
    Ok(())
}

/// Draws the table over the `drawn` lines of the last one.
fn draw(view: &View, drawn: usize) -> std::io::Result<usize> {
    let height = terminal_size::terminal_size()
        .map_or(24, |(_, terminal_size::Height(height))| usize::from(height));
    let table = view.table(height.saturating_sub(1));
    let mut out = std::io::stdout().lock();
    if drawn > 0 {
        write!(out, "\x1b[{drawn}A")?;
    } else {
        writeln!(out)?;
    }
    write!(out, "\x1b[J")?;
    for line in table.lines() {
        writeln!(out, "{}", printable(&line))?;
    }
    out.flush()?;
    Ok(table.lines().count())
}
