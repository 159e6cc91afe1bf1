//! Command `create`: a Machine from flags, or from answers on a terminal.

use std::{fs, io::BufRead as _, path::PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::{
    failure::{ExitCode, Failure},
    output::{self, Data},
    read::{self, name},
    session::Session,
};

const MAX_USER_DATA_BYTES: u64 = 512 * 1024;

/// Create a Machine
///
/// On a terminal, asks for what the flags do not say. With --dry-run=client nothing is sent to the cluster,
/// and -o yaml prints a manifest.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  kubectl machine create web --template small --disk data=50Gi --network eth0=frontend
  kubectl machine create web --cpu 4 --memory 8Gi --dry-run=client -o yaml > machine.yaml
  kubectl machine create")]
pub struct Create {
    /// Name of the Machine
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Size: small, medium or large, or the name of a MachineClass
    #[arg(short, long, value_name = "NAME", conflicts_with = "machine_class")]
    template: Option<String>,

    /// Size: the name of a MachineClass
    #[arg(long, value_name = "NAME")]
    machine_class: Option<String>,

    /// Cores, instead of the size's
    #[arg(long, value_name = "CORES", value_parser = clap::value_parser!(i32).range(1..=512))]
    cpu: Option<i32>,

    /// Memory, instead of the size's
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<String>,

    /// Disk, as NAME=SIZE[,storageClass=NAME][,url=URL]: http(s):// or docker://; can be repeated
    #[arg(long = "disk", value_name = "DISK", value_parser = disk)]
    disks: Vec<Value>,

    /// Interface on a NetworkConfiguration, as NAME=NETWORK; can be repeated
    #[arg(long = "network", value_name = "NAME=NETWORK", value_parser = network)]
    networks: Vec<Value>,

    /// File with cloud-init user data
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,

    /// Label, as KEY=VALUE; can be repeated
    #[arg(short = 'l', long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,

    /// Create it powered off
    #[arg(long)]
    stopped: bool,

    /// client: send nothing; server: let the API server check it, without creating it
    #[arg(long, value_enum, value_name = "WHERE")]
    dry_run: Option<DryRun>,

    /// Output format
    #[arg(short, long, value_enum)]
    output: Option<Printed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DryRun {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Printed {
    Json,
    Yaml,
    Name,
}

impl Create {
    pub(crate) async fn run(mut self, session: &mut Session) -> Result<ExitCode, Failure> {
        if self.name.is_none() {
            if !session.terminal.input {
                return Err(Failure::Other(
                    "name the Machine: kubectl machine create NAME".to_owned(),
                ));
            }
            self.ask(session)?;
        }
        let machine = self.machine(&session.namespace)?;
        let created = match self.dry_run {
            Some(DryRun::Client) => machine,
            dry_run => {
                let dry_run = dry_run.is_some();
                read::create(&session.client, &session.namespace, &machine, dry_run).await?
            }
        };
        let printed = match self.output {
            Some(Printed::Json) => output::objects(Data::Json, vec![created], true)?,
            Some(Printed::Yaml) => output::objects(Data::Yaml, vec![created], true)?,
            Some(Printed::Name) => output::reference(&created) + "\n",
            None => {
                let how = match self.dry_run {
                    None => "",
                    Some(DryRun::Client) => " (dry run)",
                    Some(DryRun::Server) => " (server dry run)",
                };
                format!("machine.vitistack.io/{} created{how}\n", name(&created))
            }
        };
        session.out.write_all(printed.as_bytes())?;
        session.out.flush()?;
        Ok(ExitCode::Done)
    }

    /// Asks for what the flags do not say.
    fn ask(&mut self, session: &mut Session) -> Result<(), Failure> {
        self.name = Some(loop {
            let name = question(session, "Name", "")?;
            if !name.is_empty() {
                break name;
            }
        });
        if self.template.is_none() && self.machine_class.is_none() {
            let size = question(
                session,
                "Size: small, medium, large, or a MachineClass",
                "small",
            )?;
            self.template = Some(size);
        }
        while self.disks.is_empty() {
            let text = question(session, "Further disk, as NAME=SIZE (empty: none)", "")?;
            if text.is_empty() {
                break;
            }
            match disk(&text) {
                Ok(disk) => self.disks.push(disk),
                Err(problem) => session.note(&problem),
            }
        }
        while self.networks.is_empty() {
            let text = question(
                session,
                "Network, as NAME=NETWORK (empty: the pod network)",
                "",
            )?;
            if text.is_empty() {
                break;
            }
            match network(&text) {
                Ok(network) => self.networks.push(network),
                Err(problem) => session.note(&problem),
            }
        }
        Ok(())
    }

    fn machine(&self, namespace: &str) -> Result<Value, Failure> {
        let mut spec = Map::new();
        let mut put = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                spec.insert(field.to_owned(), value);
            }
        };
        put("template", self.template.clone().map(Value::from));
        put("machineClass", self.machine_class.clone().map(Value::from));
        put("cpu", self.cpu.map(|cores| json!({ "cores": cores })));
        put("memory", self.memory.clone().map(Value::from));
        put("disks", list(&self.disks));
        put("networks", list(&self.networks));
        let user_data = self.user_data.as_deref().map(read_user_data).transpose()?;
        put(
            "cloudInit",
            user_data.map(|data| json!({ "userData": data })),
        );
        put("powerState", self.stopped.then(|| "Stopped".into()));
        let mut metadata = json!({ "name": self.name, "namespace": namespace });
        if !self.labels.is_empty() {
            let labels = self.labels.iter().cloned();
            metadata["labels"] = labels
                .map(|(key, value)| (key, Value::from(value)))
                .collect();
        }
        Ok(json!({
            "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
            "metadata": metadata, "spec": spec,
        }))
    }
}

fn list(values: &[Value]) -> Option<Value> {
    (!values.is_empty()).then(|| values.to_vec().into())
}

fn read_user_data(path: &std::path::Path) -> Result<String, Failure> {
    let unusable = |problem: &str| Failure::Other(format!("{}: {problem}", path.display()));
    let size = fs::metadata(path)
        .map_err(|error| unusable(&error.to_string()))?
        .len();
    if size > MAX_USER_DATA_BYTES {
        return Err(unusable("is larger than 512 KiB: put less into user data"));
    }
    fs::read_to_string(path).map_err(|error| unusable(&error.to_string()))
}

/// Answer to a question on the terminal.
fn question(session: &mut Session, text: &str, default: &str) -> Result<String, Failure> {
    let shown = match default {
        "" => format!("{text}: "),
        default => format!("{text} [{default}]: "),
    };
    write!(session.err, "{shown}")?;
    session.err.flush()?;
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(Failure::Other(
            "the input has ended: nothing was created".to_owned(),
        ));
    }
    Ok(match line.trim() {
        "" => default.to_owned(),
        answer => answer.to_owned(),
    })
}

fn pair<'a>(text: &'a str, expected: &str) -> Result<(&'a str, &'a str), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key, value)),
        _ => Err(format!("{text:?} must be {expected}")),
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} must be KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

fn network(text: &str) -> Result<Value, String> {
    let (name, network) = pair(text, "NAME=NETWORK, such as eth0=frontend")?;
    Ok(json!({ "name": name, "networkName": network }))
}

fn disk(text: &str) -> Result<Value, String> {
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or_default();
    let (name, size) = pair(first, "NAME=SIZE, such as data=50Gi")?;
    let mut disk = json!({ "name": name, "size": size });
    for part in parts {
        match pair(part, "storageClass=NAME or url=URL")? {
            ("storageClass", class) => disk["storageClass"] = class.into(),
            ("url", url) => {
                let is_registry = url.starts_with("docker://") || url.starts_with("oci-archive://");
                let source = if is_registry { "registry" } else { "http" };
                disk["source"] = json!({ source: { "url": url } });
            }
            (key, _) => return Err(format!("{key:?} is unknown: use storageClass or url")),
        }
    }
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_and_networks_are_read_from_flags() {
        assert_eq!(
            disk("data=50Gi,storageClass=fast,url=docker://quay.io/a/b"),
            Ok(json!({
                "name": "data", "size": "50Gi", "storageClass": "fast",
                "source": { "registry": { "url": "docker://quay.io/a/b" } },
            }))
        );
        assert_eq!(
            disk("data=50Gi,url=https://a/b"),
            Ok(
                json!({ "name": "data", "size": "50Gi", "source": { "http": { "url": "https://a/b" } } })
            )
        );
        assert!(disk("data").unwrap_err().contains("NAME=SIZE"));
        assert!(
            disk("data=1Gi,bus=sata")
                .unwrap_err()
                .contains("\"bus\" is unknown")
        );
        assert_eq!(
            network("eth0=lan"),
            Ok(json!({ "name": "eth0", "networkName": "lan" }))
        );
        assert!(network("lan").is_err());
    }
}
