//! Command `virt-operator render`.

use std::{
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use api::kubevirt::install::KubeVirt;
use plan::kubevirt::{
    Desired, Facts, Handlers, Operator, Strategy, Target,
    desired::{CA_BUNDLE, OmissionReason, desired},
    observed::Served,
    target,
};

use crate::{
    cmd::{Outcome, written},
    documents::{self, Document},
    kubevirt::{StrategyFile, file},
    report::Report,
    yaml,
};

/// Print the objects of a KubeVirt installation
///
/// Prints every object of the release as it would be applied, with labels, placement, replicas,
/// PodDisruptionBudgets and patches. What depends on the cluster is left out, with a note on standard
/// error: certificates are issued in the cluster. The cluster is assumed to serve all kinds of the
/// strategy except those of OpenShift.
///
/// Exit status: 0 success, 1 an invalid resource, 2 a file cannot be read.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator virt-operator render --strategy v1.9.0.yaml.gz -f kubevirt.yaml
  kubectl get kubevirt -n kubevirt kubevirt -o yaml | kubevirt-operator virt-operator render --strategy v1.9.0.yaml -f -")]
pub(crate) struct Args {
    /// File with the KubeVirt resource, or - for standard input
    #[arg(short, long, value_name = "FILE|-")]
    filename: PathBuf,

    /// File with the install strategy of the release: YAML, optionally compressed with gzip, or a
    /// ConfigMap
    #[arg(long, value_name = "FILE")]
    strategy: PathBuf,
}

impl Args {
    pub(super) fn run(self, report: &mut Report) -> Outcome {
        let strategy = match file::read(&self.strategy) {
            Ok(strategy) => strategy,
            Err(error) => {
                report.error(format_args!(
                    "--strategy {}: {error}",
                    self.strategy.display()
                ));
                return Outcome::Unreadable;
            }
        };
        let kubevirt = match kubevirt(&self.filename, NAMESPACE) {
            Ok(kubevirt) => kubevirt,
            Err((outcome, message)) => {
                report.error(message);
                return outcome;
            }
        };
        match rendered(&kubevirt, &strategy) {
            Ok(desired) => {
                report_notes(&desired, &strategy.strategy, report);
                written(print(&desired), report)
            }
            Err(message) => {
                report.error(format_args!("{}: {message}", self.filename.display()));
                Outcome::Problems
            }
        }
    }
}

/// Default namespace: the one that install strategies usually contain.
const NAMESPACE: &str = "kubevirt";

/// The only KubeVirt resource among the documents of a file. `namespace` is the default.
pub(super) fn kubevirt(path: &Path, namespace: &str) -> Result<KubeVirt, (Outcome, String)> {
    let unreadable = |error: documents::ReadError| (Outcome::Unreadable, error.to_string());
    let mut found = Vec::new();
    for source in documents::sources(&[path.to_owned()], false) {
        for document in source
            .and_then(|source| source.read())
            .map_err(unreadable)?
        {
            let document = document.map_err(unreadable)?;
            if is_kubevirt(&document) {
                found.push(document);
            }
        }
    }
    let [Document { origin, value }] = found.as_slice() else {
        let message = format!(
            "{}: contains {} KubeVirt resources: pass exactly one",
            path.display(),
            found.len()
        );
        return Err((Outcome::Problems, message));
    };
    let mut kubevirt: KubeVirt = serde_path_to_error::deserialize(value).map_err(|error| {
        let message = format!("{origin}: {}: {}", error.path(), error.inner());
        (Outcome::Problems, message)
    })?;
    let given = &mut kubevirt.metadata.namespace;
    given.get_or_insert_with(|| namespace.to_owned());
    Ok(kubevirt)
}

fn is_kubevirt(document: &Document) -> bool {
    let text = |field: &str| {
        document
            .value
            .get(field)
            .and_then(serde_json::Value::as_str)
    };
    let group = text("apiVersion").and_then(|version| version.split_once('/'));
    text("kind") == Some("KubeVirt") && group.is_some_and(|(group, _)| group == "kubevirt.io")
}

fn rendered(kubevirt: &KubeVirt, given: &StrategyFile) -> Result<Desired, String> {
    let served = served(&given.strategy);
    let target = target_of(kubevirt, given, &served)?;
    if target.version != given.version {
        return Err(format!(
            "the install strategy is of version {}, but the KubeVirt resource asks for {}: pass the \
             strategy of that release",
            given.version, target.version
        ));
    }
    let facts = Facts {
        namespace: kubevirt.metadata.namespace.as_deref().unwrap_or(NAMESPACE),
        served: &served,
        schedulable_nodes: 0,
        bundles: [(CA_BUNDLE.to_owned(), String::new())].into(),
        handlers: Handlers::None,
    };
    desired(kubevirt, &target, &given.strategy, &facts).map_err(|error| error.to_string())
}

/// Target of a resource; version and registry default to those of the strategy.
fn target_of(kubevirt: &KubeVirt, given: &StrategyFile, served: &Served) -> Result<Target, String> {
    let registry = registry(&given.strategy).unwrap_or_default();
    let operator = Operator {
        namespace: kubevirt.metadata.namespace.clone().unwrap_or_default(),
        image: Some(format!("{registry}/virt-operator:{}", given.version)),
        ..Operator::default()
    };
    target(kubevirt, &operator, served).map_err(|error| error.to_string())
}

/// Registry of the images in a strategy.
fn registry(strategy: &Strategy) -> Option<String> {
    let mut workloads = strategy.objects.iter();
    workloads.find_map(|object| {
        if !object.id.is("apps", "Deployment") {
            return None;
        }
        let value = object.value();
        let image = value.pointer("/spec/template/spec/containers/0/image")?;
        let (registry, _) = image.as_str()?.rsplit_once('/')?;
        Some(registry.to_owned())
    })
}

/// All kinds of a strategy except those of OpenShift.
fn served(strategy: &Strategy) -> Served {
    let objects = strategy.objects.iter();
    let objects = objects.filter(|object| !object.id.group.ends_with(".openshift.io"));
    let kinds = objects.map(|object| {
        let kind = (object.id.group.to_string(), object.id.kind.to_string());
        (kind, object.version.to_string())
    });
    Served {
        kinds: kinds.collect(),
        ..Served::default()
    }
}

fn report_notes(desired: &Desired, strategy: &Strategy, report: &mut Report) {
    for repair in &strategy.repairs {
        report.general_note(format_args!("repaired in the install strategy: {repair}"));
    }
    for note in &desired.notes {
        report.general_note(note);
    }
    for omitted in &desired.omitted {
        let (OmissionReason::TurnedOff(why)
        | OmissionReason::NotServed(why)
        | OmissionReason::NotYet(why)) = &omitted.reason;
        report.general_note(format_args!("{} is left out: {why}", omitted.id));
    }
    report.general_note(format_args!(
        "certificates are issued in the cluster: {} Secrets and {} ConfigMaps are not shown, and no \
         caBundle",
        desired.secrets.len(),
        desired.config_maps.len()
    ));
    report.general_note(
        "the replicas of virt-api depend on the number of nodes, unless spec.infra.replicas is set",
    );
}

fn print(desired: &Desired) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for object in &desired.objects {
        writeln!(out, "---")?;
        out.write_all(yaml::to_string(&object.value())?.as_bytes())?;
    }
    out.flush()
}
