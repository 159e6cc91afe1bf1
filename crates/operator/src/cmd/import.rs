//! Command `import`.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use plan::machine::{ImportSource, Imported, Kind, claims_of, cloud_init_secret_of, import};
use serde_json::Value;

use super::{Outcome, preview::Cluster, written};
use crate::{
    machine::paths,
    report::Report,
    requests::{Requests, is_code},
    yaml,
};

/// Write Machines for existing VirtualMachines, which adopt them
///
/// Reads VirtualMachines with their instances and claims, and prints a Machine for each. When it is
/// applied, the operator adopts the VirtualMachine without changing it. What a Machine cannot express
/// stays on the VirtualMachine; it is reported, and is a comment in the manifest. Cloud-init data in a
/// VirtualMachine, or in the Secret that the operator created for it, is printed as it is. Only reads.
///
/// Exit status: 0 the Machines express their VirtualMachines, 2 some do not entirely, 1 an error: the
/// cluster cannot be read, or a VirtualMachine does not exist.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kubevirt-operator import -n shop > machines.yaml
  kubevirt-operator import -n shop web db -o machines/
  kubevirt-operator plan -f machines.yaml")]
pub(crate) struct Args {
    /// Namespace of the VirtualMachines [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Write a file for each Machine into this directory instead of to standard output
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Names of VirtualMachines; all of the namespace that no Machine owns if none is given
    #[arg(value_name = "VM")]
    names: Vec<String>,

    #[command(flatten)]
    cluster: Cluster,
}

impl Args {
    pub(crate) fn run(self, report: &mut Report) -> Outcome {
        let Some(runtime) = report.ok(super::runtime()) else {
            return Outcome::Problems;
        };
        let read = report.ok(runtime.block_on(self.read()));
        let Some(imported) = read else {
            return Outcome::Problems;
        };
        let mut outcome = Outcome::Fine;
        let mut text = String::new();
        for (name, imported) in &imported {
            for note in &imported.warnings {
                report.general_note(format!(
                    "VirtualMachine {name}: {}: {}",
                    note.path, note.message
                ));
                outcome = Outcome::Changes;
            }
            let Some(manifest) = report.ok(manifest(imported)) else {
                return Outcome::Problems;
            };
            if let Some(directory) = &self.output {
                if report.ok(write(directory, name, &manifest)).is_none() {
                    return Outcome::Problems;
                }
            } else {
                text.push_str("---\n");
                text.push_str(&manifest);
            }
        }
        if imported.is_empty() {
            report.general_note("no VirtualMachine to import");
        }
        outcome.max(written(io::stdout().write_all(text.as_bytes()), report))
    }

    async fn read(&self) -> Result<Vec<(String, Imported)>, String> {
        let (client, default_namespace) = self
            .cluster
            .connect()
            .await
            .map_err(|error| error.to_string())?;
        let namespace = self.namespace.as_deref().unwrap_or(&default_namespace);
        let requests = Requests::new(client, api::labels::MANAGER);
        let mut found = Vec::new();
        if self.names.is_empty() {
            let path = paths::collection(Kind::VirtualMachine, namespace);
            let list = requests
                .get(&path)
                .await
                .map_err(|error| format!("cannot list VirtualMachines: {error}"))?;
            let items = list["items"].as_array().into_iter().flatten();
            found.extend(items.filter(|vm| !is_of_machine(vm)).cloned());
        }
        for name in &self.names {
            let vm = get(&requests, Kind::VirtualMachine, namespace, name).await?;
            found.push(vm.ok_or_else(|| format!("there is no VirtualMachine {namespace}/{name}"))?);
        }
        let mut all = Vec::new();
        for vm in found {
            let name = vm["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let instance = get(&requests, Kind::VirtualMachineInstance, namespace, &name).await?;
            let mut claims = BTreeMap::new();
            for (_, claim) in claims_of(&vm["spec"]) {
                let found = get(&requests, Kind::PersistentVolumeClaim, namespace, claim).await?;
                claims.extend(found.map(|found| (claim.to_owned(), found)));
            }
            let mut secret = None;
            if let Some(name) = cloud_init_secret_of(&vm) {
                let path = format!("{}/{name}", paths::secrets(namespace));
                secret = read(&requests, &path, &format!("Secret {namespace}/{name}")).await?;
            }
            let imported = import(ImportSource {
                virtual_machine: &vm,
                instance: instance.as_ref(),
                claims: &claims,
                cloud_init: secret.as_ref(),
            });
            all.push((name, imported));
        }
        Ok(all)
    }
}

/// Whether a Machine owns a VirtualMachine.
fn is_of_machine(vm: &Value) -> bool {
    let owners = vm["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["controller"] == true && owner["kind"] == "Machine")
}

async fn get(
    requests: &Requests,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, String> {
    let path = paths::object(kind, namespace, name);
    let what = format!("{} {namespace}/{name}", kind.as_str());
    read(requests, &path, &what).await
}

/// Reads an object, if it exists.
async fn read(requests: &Requests, path: &str, what: &str) -> Result<Option<Value>, String> {
    match requests.get(path).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_code(&error, 404) => Ok(None),
        Err(error) => Err(format!("cannot read {what}: {error}")),
    }
}

/// The manifest, after a comment for each warning.
fn manifest(imported: &Imported) -> io::Result<String> {
    let comments = imported.warnings.iter().map(|note| {
        let text = format!("{}: {}", note.path, note.message);
        format!("# {}\n", text.replace(['\n', '\r'], " "))
    });
    let comments: String = comments.collect();
    Ok(comments + &yaml::to_string(&imported.machine)?)
}

fn write(directory: &Path, name: &str, manifest: &str) -> Result<(), String> {
    let file = directory.join(format!("{name}.yaml"));
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&file, manifest))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}
