//! Arguments of the load harness.

use std::path::PathBuf;

use clap::Parser;

/// API server under load.
#[derive(Clone, Debug)]
pub enum ServerChoice {
    /// A sandbox in a process of its own.
    Sandbox,
    /// The server of a kubeconfig, which has neither nodes nor KubeVirt.
    Kubeconfig(PathBuf),
}

/// Measure the Machine operator under load
///
/// Starts an API server with simulated nodes, storage and KubeVirt, the operator, and a client that
/// creates, resizes and deletes Machines. Prints one line of JSON for each number of Machines, and a
/// table.
#[derive(Debug, Parser)]
#[command(name = "load")]
pub struct Arguments {
    /// Numbers of Machines, one run each
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "1000")]
    pub machines: Vec<usize>,

    /// `sandbox`, or the path of the kubeconfig of an API server without nodes
    #[arg(long, value_name = "SERVER", default_value = "sandbox", value_parser = server)]
    pub server: ServerChoice,

    /// Shell command that runs another operator, with KUBECONFIG set
    #[arg(long, value_name = "COMMAND")]
    pub peer: Option<String>,

    /// Settings of the operator, as NAME=VALUE; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub setting: Vec<(String, String)>,

    /// Number of requests that the client has in flight
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub clients: usize,

    /// Seconds without changes in which requests are counted
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub idle: u64,

    /// File for the curves over the numbers of Machines
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    pub bench: bool,
}

fn server(text: &str) -> Result<ServerChoice, String> {
    if text == "sandbox" {
        return Ok(ServerChoice::Sandbox);
    }
    let path = PathBuf::from(text);
    if path.is_file() {
        Ok(ServerChoice::Kubeconfig(path))
    } else {
        Err("must be `sandbox` or the path of a kubeconfig".to_owned())
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| "must be NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}
