use std::io::{self, BufWriter, Write as _};

use super::{Outcome, settings::namespace_name, written};
use crate::{
    installation::{IMAGE, Installation, NAMESPACE, Part},
    report::Report,
    yaml,
};

/// Print all that an installation consists of
///
/// Definitions, rights, the Deployment, Services and the webhook of the Machine operator, as
/// `kubectl apply -k config/default` installs them, in an order in which they can be applied.
///
/// To install: kubevirt-operator manifests | kubectl apply --server-side -f -
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator manifests | kubectl apply --server-side -f -
  kubevirt-operator manifests --virt-operator --image registry.example/kubevirt-operator:0.1.0")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of a command, each about a part of its own"
)]
pub(crate) struct Args {
    /// Namespace of the Machine operator
    #[arg(long, value_name = "NAME", default_value = NAMESPACE, value_parser = namespace_name)]
    namespace: String,

    /// Image of both operators
    #[arg(long, default_value = IMAGE, value_parser = image)]
    image: String,

    /// With the operator that installs KubeVirt itself, in the namespace kubevirt
    #[arg(long)]
    virt_operator: bool,

    /// With ServiceMonitor, alerts and dashboard, for clusters with the Prometheus operator
    #[arg(long)]
    prometheus: bool,

    /// With a NetworkPolicy: only metrics and admission can be reached
    #[arg(long)]
    network_policy: bool,

    /// Without admission of Machines, MachineClasses and NetworkConfigurations
    #[arg(long)]
    without_webhook: bool,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let parts = [
            (!self.without_webhook, Part::Webhook),
            (self.virt_operator, Part::VirtOperator),
            (self.prometheus, Part::Prometheus),
            (self.network_policy, Part::NetworkPolicy),
        ];
        let installation = Installation {
            namespace: self.namespace,
            image: self.image,
            parts: parts
                .into_iter()
                .filter_map(|(wanted, part)| wanted.then_some(part))
                .collect(),
        };
        let print = || -> io::Result<()> {
            let mut out = BufWriter::new(io::stdout().lock());
            for object in installation.objects()? {
                writeln!(out, "---")?;
                let text = if object["kind"] == "CustomResourceDefinition" {
                    yaml::crd(&object)?
                } else {
                    yaml::to_string(&object)?
                };
                out.write_all(text.as_bytes())?;
            }
            out.flush()
        };
        written(print(), report)
    }
}

/// A reference to an image, as far as a slip of the pen shows.
fn image(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "./:@-_".contains(c);
    if !text.is_empty() && text.chars().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err("must be an image such as registry.example/kubevirt-operator:0.1.0".to_owned())
    }
}
