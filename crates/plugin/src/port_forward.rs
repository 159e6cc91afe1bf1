//! Command `port-forward`: local ports to those of a guest.
//!
//! Each local connection has a tunnel of its own, so after a restart of the guest or a lost connection the
//! next one works again.

use clap::Args;
use tokio::{
    io::{split, stdin, stdout},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use websocket::{Role, tunnel};

use crate::{
    failure::{ExitCode, Failure},
    family::vm_name,
    read,
    session::Session,
    tunnel::Target,
};

/// Forward local ports to ports of a guest
///
/// The connections are made by virt-api, to the address of the guest's first interface. It runs until it is
/// interrupted.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  kubectl machine port-forward web 8080:80
  kubectl machine port-forward web :22 :443")]
pub struct PortForward {
    /// Name of the Machine
    #[arg(value_name = "NAME")]
    name: String,

    /// Ports, as LOCAL:REMOTE, as :REMOTE for any free local port, or as PORT for the same on both sides
    #[arg(value_name = "PORT", required = true, value_parser = ports)]
    ports: Vec<(u16, u16)>,

    /// Local address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: std::net::IpAddr,

    /// Connect standard input and output to the port instead of listening
    #[arg(long)]
    stdio: bool,
}

/// Local and remote port.
fn ports(text: &str) -> Result<(u16, u16), String> {
    let port = |text: &str| {
        let number = text.parse::<u16>().ok().filter(|port| *port > 0);
        number.ok_or_else(|| format!("{text:?} must be a port from 1 to 65535"))
    };
    match text.split_once(':') {
        None => port(text).map(|both| (both, both)),
        Some(("", remote)) => Ok((0, port(remote)?)),
        Some((local, remote)) => Ok((port(local)?, port(remote)?)),
    }
}

impl PortForward {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        let machine = read::machine(&session.client, &session.namespace, &self.name).await?;
        let namespace = session.namespace.clone();
        let target = |port: u16| Target::port(&namespace, vm_name(&machine), port);
        if self.stdio {
            let Some((_, remote)) = self.ports.first() else {
                return Ok(ExitCode::Done);
            };
            let connection = target(*remote).open(&session.client).await?;
            tunnel(connection, Role::Client, stdin(), stdout())
                .await
                .map_err(lost)?;
            return Ok(ExitCode::Done);
        }
        let mut listeners = Vec::new();
        for (local, remote) in &self.ports {
            let listener = TcpListener::bind((self.address, *local)).await;
            let listener = listener.map_err(|error| {
                Failure::Other(format!(
                    "cannot listen on {}:{local}: {error}",
                    self.address
                ))
            })?;
            listeners.push((listener, *remote));
        }
        for (listener, remote) in &listeners {
            let address = listener.local_addr()?;
            writeln!(session.out, "Forwarding from {address} -> {remote}")?;
        }
        session.out.flush()?;
        let listeners = listeners.into_iter();
        let listeners = listeners.map(|(listener, remote)| (listener, target(remote)));
        forward(listeners.collect(), session).await
    }
}

/// Accepts connections until the process is interrupted.
async fn forward(
    listeners: Vec<(TcpListener, Target)>,
    session: &mut Session,
) -> Result<ExitCode, Failure> {
    let (send, mut accepted) = tokio::sync::mpsc::channel(1);
    let mut accepting = JoinSet::new();
    for (listener, target) in listeners {
        let send = send.clone();
        accepting.spawn(async move {
            loop {
                let connection = listener.accept().await.map(|(stream, _)| stream);
                if send.send((connection, target.clone())).await.is_err() {
                    return;
                }
            }
        });
    }
    drop(send);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some((connection, target)) = accepted.recv() => {
                let client = session.client.clone();
                connections.spawn(async move { connect(&client, &target, connection?).await });
            }
            // A broken connection does not end the others.
            Some(Ok(Err(failure))) = connections.join_next() => {
                session.error(&failure.to_string());
            }
            else => return Ok(ExitCode::Done),
        }
    }
}

async fn connect(client: &kube::Client, target: &Target, local: TcpStream) -> Result<(), Failure> {
    let connection = target.open(client).await?;
    let (reader, writer) = split(local);
    tunnel(connection, Role::Client, reader, writer)
        .await
        .map_err(lost)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn lost(error: std::io::Error) -> Failure {
    Failure::Other(format!("the connection to the guest was lost: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_kubectl_reads_them() {
        assert_eq!(ports("8080:80"), Ok((8080, 80)));
        assert_eq!(ports(":22"), Ok((0, 22)));
        assert_eq!(ports("443"), Ok((443, 443)));
        for wrong in ["", ":", "a", "0", "1:0", "70000", "1:2:3"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}
