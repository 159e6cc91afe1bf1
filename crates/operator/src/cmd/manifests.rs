//! Command `manifests`.

use std::io::{self, BufWriter, Write as _};

use super::{
    Outcome,
    settings::{is_label, namespace_name},
    written,
};
use crate::{
    installation::{CLUSTER_ROLE, IMAGE, Installation, KUBEVIRT_NAMESPACE, NAMESPACE, Part},
    report::Report,
    yaml,
};

/// Print the manifests of an installation
///
/// Prints CustomResourceDefinitions, RBAC, the Deployment, Services and the webhook of the Machine
/// operator, as in config/default, in the order in which to apply them.
///
/// To install: kubevirt-operator manifests | kubectl apply --server-side --field-manager=vitistack -f -
///
/// On a cluster with KubeVirt's own manifests, pass another --cluster-role: KubeVirt has a ClusterRole
/// with the default name.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator manifests | kubectl apply --server-side --field-manager=vitistack -f -
  kubevirt-operator manifests --virt-operator --image registry.example/kubevirt-operator:0.1.0")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of a command, each about a part of its own"
)]
pub(crate) struct Args {
    /// Namespace of the Machine operator; any other than the default must exist and is not printed
    #[arg(long, value_name = "NAME", default_value = NAMESPACE, value_parser = namespace)]
    namespace: String,

    /// Image of both operators
    #[arg(long, default_value = IMAGE, value_parser = image)]
    image: String,

    /// Name of the Machine operator's ClusterRole
    #[arg(long, value_name = "NAME", default_value = CLUSTER_ROLE, value_parser = cluster_role)]
    cluster_role: String,

    /// Add the operator that installs KubeVirt, in namespace kubevirt
    #[arg(long)]
    virt_operator: bool,

    /// Add ServiceMonitor, alerts and dashboard, for clusters with the Prometheus operator
    #[arg(long)]
    prometheus: bool,

    /// Add a NetworkPolicy that admits traffic to metrics and the webhook only
    #[arg(long)]
    network_policy: bool,

    /// Leave out the admission webhook
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
            cluster_role: self.cluster_role,
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

/// KubeVirt's namespace cannot be used: it contains a Service with the name of the webhook's.
fn namespace(text: &str) -> Result<String, String> {
    if text == KUBEVIRT_NAMESPACE {
        return Err(format!(
            "must be another namespace than {KUBEVIRT_NAMESPACE}: \
             KubeVirt has a Service there with the name of the webhook's Service"
        ));
    }
    namespace_name(text)
}

/// Plausibility check of an image reference.
fn image(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "./:@-_".contains(c);
    if !text.is_empty() && text.chars().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err("must be an image such as registry.example/kubevirt-operator:0.1.0".to_owned())
    }
}

/// A DNS label that is not the name of another role of the installation.
fn cluster_role(text: &str) -> Result<String, String> {
    let reserved = ["kubevirt-operator-webhook", "virt-operator"];
    if is_label(text) && !reserved.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "must be at most 63 lower-case letters, digits and '-', and none of {}",
            reserved.join(", ")
        ))
    }
}
