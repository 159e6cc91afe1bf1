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

use super::Outcome;
use crate::{
    documents::{self, Document, ReadError},
    report::{Report, printable},
};

/// Run a whole cluster in this process, to try things with kubectl
///
/// A Kubernetes API server in memory, with nodes, storage, CDI and KubeVirt that behave as the real
/// ones do, but run nothing, and the operator that makes VirtualMachines of Machines. It listens on
/// the loopback interface only, writes a kubeconfig, and shows what happens until Ctrl-C.
///
/// Exit status: 0 it was ended by Ctrl-C, 1 it could not go on, 2 something could not be read.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator sandbox
  kubevirt-operator sandbox --no-operator
  kubevirt-operator sandbox --with-kubevirt
  kubevirt-operator sandbox --with-webhook
  kubevirt-operator sandbox --keep ~/my-cluster --speed real
  kubevirt-operator sandbox --apply manifests/ --faults faults.yaml")]
pub(crate) struct Args {
    /// Address to listen on, loopback only; port 0 finds a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Where to write the kubeconfig; it is removed at the end
    #[arg(long, value_name = "PATH", default_value = "sandbox.kubeconfig")]
    kubeconfig: PathBuf,

    /// File or folder of YAML or JSON documents to apply at the start; can be repeated
    #[arg(long, value_name = "PATH")]
    apply: Vec<PathBuf>,

    /// Folder to keep the cluster's state in, and to start from again
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Leave the operator out, to run another one beside it
    #[arg(long)]
    no_operator: bool,

    /// Have KubeVirt installed by its operator, from a KubeVirt resource, instead of having it there
    #[arg(long)]
    with_kubevirt: bool,

    /// Have the API server ask the operator about changes, which it refuses or warns of
    #[arg(long, conflicts_with = "no_operator")]
    with_webhook: bool,

    #[command(flatten)]
    behaviour: Behaviour,
}

/// How the actors behave.
#[derive(clap::Args)]
pub(super) struct Behaviour {
    /// How long things take: as in a real cluster, a twentieth of it, or no time
    #[arg(long, value_name = "real|fast|instant", default_value_t = Speed::Fast)]
    pub(super) speed: Speed,

    /// How many nodes there are
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(super) nodes: usize,

    /// File that says which objects fail, how and when (docs/sandbox.md)
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

impl Behaviour {
    /// What is to fail.
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
        let faults = match self.behaviour.faults() {
            Ok(faults) => faults,
            Err(error) => {
                report.error(error);
                return Outcome::Unreadable;
            }
        };
        let Some(objects) = read(&self.apply, report) else {
            return Outcome::Unreadable;
        };
        let runtime = match super::runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                report.error(format_args!("cannot start: {error}"));
                return Outcome::Problems;
            }
        };
        runtime.block_on(self.serve(faults, objects, report))
    }

    async fn serve(self, faults: Faults, objects: Vec<Document>, report: &mut Report) -> Outcome {
        let setup = Setup {
            speed: self.behaviour.speed,
            nodes: self.behaviour.nodes,
            faults,
            definitions: api::crds()
                .iter()
                .filter_map(|definition| serde_json::to_value(definition).ok())
                .collect(),
            start: jiff::Timestamp::now(),
            kubevirt: if self.with_kubevirt {
                KubeVirtMode::Managed
            } else {
                KubeVirtMode::BuiltIn
            },
            ..Setup::seeded(0)
        };
        let options = Options {
            listen: self.listen,
            kubeconfig: self.kubeconfig,
            keep: self.keep,
        };
        let sandbox = match Sandbox::start(setup, &options).await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                report.error(error);
                return Outcome::Problems;
            }
        };
        let client = sandbox.cluster().client();
        let mut outcome = Outcome::Fine;
        let mut operators = Vec::new();
        if self.with_kubevirt {
            match operators::kubevirt(sandbox.cluster(), self.behaviour.speed).await {
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
        greet(sandbox.kubeconfig(), self.no_operator, self.with_kubevirt);
        let shown = tokio::select! {
            shown = show(&client) => shown,
            ended = super::signal() => ended,
        };
        if let Err(error) = shown {
            report.error(format_args!("cannot go on: {error}"));
            outcome = Outcome::Problems;
        }
        for operator in operators {
            operator.stop().await;
        }
        if let Err(error) = sandbox.stop().await {
            report.error(error);
            outcome = Outcome::Problems;
        }
        outcome
    }
}

/// The documents at `paths`; nothing is started with half of them.
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

/// What a person needs to know, on standard output.
fn greet(kubeconfig: &Path, no_operator: bool, with_kubevirt: bool) {
    let path = kubeconfig.display();
    let kubectl = format!("kubectl --kubeconfig {path}");
    let operator = if no_operator {
        format!(
            "No operator acts on Machines in it; to run one, in another terminal:\n\n  \
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
    // A reader that has gone away has seen enough.
    let _ = writeln!(
        std::io::stdout(),
        "The cluster is ready. Its kubeconfig is {path}. {operator}\n\n  \
         {kubectl} apply -f examples/machine-small.yaml\n  \
         {kubectl} get machines --watch\n  \
         {kubectl} get vm,vmi,pvc,pods -o wide{kubevirt}\n\n\
         Ctrl-C ends it."
    );
}

/// Shows what happens: a table that is drawn anew on a terminal, lines elsewhere.
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
        // What comes at the same moment is drawn together.
        let soon = tokio::time::sleep(REDRAW);
        tokio::pin!(soon);
        loop {
            tokio::select! {
                () = &mut soon => break,
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
