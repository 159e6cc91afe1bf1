//! Command `render`.

use std::io::{self, BufWriter, Write};

use clap::ValueEnum;
use plan::machine::{MachineObjects, Note, RemoteCluster, Resolution, VmCluster, build, resolve};
use serde::Serialize;

use super::{
    Outcome,
    input::{Entry, Input, OTHER_PROVIDER},
    written,
};
use crate::{
    manifests::{Inventory, Resource},
    report::Report,
    yaml,
};

/// Print the objects of Machines
///
/// Prints the cloud-init Secret, the disks and the VirtualMachine of each Machine, and the
/// NetworkAttachmentDefinition of each NetworkConfiguration. MachineClasses, NetworkConfigurations,
/// StorageClasses and Secrets are read from the documents. What depends on the cluster is left out, with
/// a note on standard error.
///
/// Exit status: 0 success, 1 an invalid document, 2 a file cannot be read.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator render -f machine.yaml
  kubevirt-operator render -f examples/ -o json
  kubectl get machine web -o yaml | kubevirt-operator render -f -")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let loaded = self.input.load(report);
        for problem in &loaded.problems {
            report.error(problem);
        }
        let mut outcome = loaded.outcome();
        let valid: Vec<_> = loaded
            .entries
            .iter()
            .filter(|entry| entry.invalid_fields.is_empty())
            .collect();
        let inventory = Inventory::of(
            valid.iter().map(|entry| &entry.resource),
            self.input.provider(),
        );
        let default = self.input.kubevirt_config();
        let mut printer = Printer::new(self.output, BufWriter::new(io::stdout().lock()));
        let print = || -> io::Result<()> {
            for entry in valid {
                outcome = outcome.max(render(
                    entry,
                    &inventory,
                    default.as_deref(),
                    &mut printer,
                    report,
                )?);
            }
            printer.finish()
        };
        let result = print();
        outcome.max(written(result, report))
    }
}

fn render(
    entry: &Entry,
    inventory: &Inventory,
    default: Option<&str>,
    printer: &mut Printer<impl Write>,
    report: &mut Report,
) -> io::Result<Outcome> {
    let origin = &entry.origin;
    let machine = match &entry.resource {
        Resource::Machine(machine) => machine,
        Resource::NetworkConfiguration(network) => {
            if let Some(definition) = build::attachment_definition(network) {
                printer.print(&definition)?;
            }
            return Ok(Outcome::Fine);
        }
        Resource::MachineClass(_) | Resource::StorageClass(_) | Resource::Secret(_) => {
            return Ok(Outcome::Fine);
        }
    };
    let mut surroundings = inventory
        .surroundings(machine.metadata.namespace.as_ref())
        .clone();
    if let VmCluster::Remote(cluster) = VmCluster::of(machine, default) {
        surroundings.cluster = Some(RemoteCluster {
            name: cluster.into(),
            managed_from: None,
        });
        let message = format!(
            "the printed objects are in cluster {cluster}, where they also get the labels {} and {}",
            api::labels::MACHINE_UID,
            api::labels::MANAGED_FROM
        );
        report.note(origin, "metadata", &message);
    }
    if !surroundings.provider.is_named_by(machine) {
        report.note(origin, "spec.provider", OTHER_PROVIDER);
        return Ok(Outcome::Fine);
    }
    match resolve(machine, &surroundings) {
        Err(errors) => {
            for error in errors {
                report.error(format_args!("{origin}: {error}"));
            }
            Ok(Outcome::Problems)
        }
        Ok(Resolution { machine, notes }) => {
            for Note { path, message } in &notes {
                report.note(origin, path, message);
            }
            if machine.identity.uid.is_none() && machine.identity.cluster.is_none() {
                report.note(
                    origin,
                    "metadata.uid",
                    "is set by the cluster: the printed objects have no owner reference",
                );
            }
            let MachineObjects {
                ledger,
                attachments,
                cloud_init,
                volumes,
                virtual_machine,
            } = build(&machine);
            if let Some(ledger) = ledger {
                printer.print(&ledger)?;
            }
            for definition in attachments {
                printer.print(&definition)?;
            }
            if let Some(secret) = cloud_init {
                printer.print(&secret)?;
            }
            for volume in volumes {
                printer.print(&volume)?;
            }
            printer.print(&virtual_machine)?;
            Ok(Outcome::Fine)
        }
    }
}

/// Printer of objects as YAML documents, or as the items of a JSON list.
struct Printer<W> {
    format: Format,
    out: W,
    count: usize,
}

impl<W: Write> Printer<W> {
    fn new(format: Format, out: W) -> Self {
        Self {
            format,
            out,
            count: 0,
        }
    }

    fn print(&mut self, object: &impl Serialize) -> io::Result<()> {
        match self.format {
            Format::Yaml => {
                writeln!(self.out, "---")?;
                self.out.write_all(yaml::to_string(object)?.as_bytes())?;
            }
            Format::Json => {
                self.out
                    .write_all(if self.count == 0 { JSON_LIST } else { b",\n" })?;
                serde_json::to_writer(&mut self.out, object)?;
            }
        }
        self.count += 1;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Format::Json = self.format {
            if self.count == 0 {
                self.out.write_all(JSON_LIST)?;
            }
            self.out.write_all(b"\n]}\n")?;
        }
        self.out.flush()
    }
}

const JSON_LIST: &[u8] = b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n";
