//! Services and consoles of simulated guests, behind virt-api's tunnels.

mod shell;

use std::time::Duration;

use actors::kubevirt::GuestService;
use apiserver::Upgraded;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex,
    split,
};
use websocket::{Role, tunnel};

use self::shell::{Power, Shell};

const BUFFER: usize = 64 * 1024;
/// How often a tunnel checks whether its instance still runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
const BANNER: &[u8] = b"SSH-2.0-sandbox\r\n";

/// Connects a client to a service, until one of them ends the connection.
async fn serve_port(service: GuestService, connection: Upgraded) {
    let (near, far) = duplex(BUFFER);
    let (reader, writer) = split(near);
    let guest = async move {
        let (reader, mut writer) = split(far);
        let mut reader = BufReader::new(reader);
        // The client may go at any time.
        let _ = match service {
            GuestService::Echo => tokio::io::copy_buf(&mut reader, &mut writer)
                .await
                .map(drop),
            GuestService::Ssh => {
                async {
                    writer.write_all(BANNER).await?;
                    let mut line = String::new();
                    reader.read_line(&mut line).await.map(drop)
                }
                .await
            }
        };
        let _ = writer.shutdown().await;
    };
    let (ended, ()) = tokio::join!(tunnel(connection, Role::Server, reader, writer), guest);
    if let Err(error) = ended {
        tracing::debug!(%error, "tunnel failed");
    }
}

/// Waits until an instance has ended.
async fn until_over(instances: Api<DynamicObject>, name: String, uid: String) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Ok(found) = instances.get_opt(&name).await else {
            continue;
        };
        let is_over = found.is_none_or(|instance| {
            let phase = instance
                .data
                .pointer("/status/phase")
                .and_then(Value::as_str);
            instance.metadata.uid.as_ref() != Some(&uid)
                || matches!(phase, Some("Succeeded" | "Failed"))
        });
        if is_over {
            return;
        }
    }
}

/// Guest of an instance.
pub(crate) struct Guest {
    instances: Api<DynamicObject>,
    name: String,
    uid: String,
    shell: Shell,
}

impl Guest {
    pub(crate) fn new(instances: Api<DynamicObject>, name: &str, vmi: &Value) -> Self {
        let interfaces = vmi.pointer("/status/interfaces").and_then(Value::as_array);
        let addresses = interfaces.into_iter().flatten();
        let addresses = addresses.filter_map(|interface| interface["ipAddress"].as_str());
        Self {
            shell: Shell::new(name, addresses.map(str::to_owned).collect()),
            instances,
            name: name.to_owned(),
            uid: vmi["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        }
    }

    /// Connects a client to a service, or to the console, as long as the instance runs.
    pub(crate) async fn serve(self, service: Option<GuestService>, connection: Upgraded) {
        let over = until_over(self.instances.clone(), self.name.clone(), self.uid.clone());
        let serving = async {
            match service {
                Some(service) => serve_port(service, connection).await,
                None => self.serve_console(connection).await,
            }
        };
        tokio::select! {
            () = serving => {}
            () = over => {}
        }
    }

    async fn serve_console(self, connection: Upgraded) {
        let (near, far) = duplex(BUFFER);
        let (reader, writer) = split(near);
        let guest = self.run(far);
        let (ended, guest) = tokio::join!(tunnel(connection, Role::Server, reader, writer), guest);
        if let Err(error) = ended.and(guest) {
            tracing::debug!(%error, "console failed");
        }
    }

    async fn run(mut self, mut terminal: DuplexStream) -> std::io::Result<()> {
        terminal.write_all(self.shell.greeting().as_bytes()).await?;
        let mut typed = vec![0; 1024];
        loop {
            let length = terminal.read(&mut typed).await?;
            if length == 0 {
                return Ok(());
            }
            let typed = typed.get(..length).unwrap_or_default();
            let (shown, power) = self.shell.input(typed);
            terminal.write_all(shown.as_bytes()).await?;
            match power {
                None => {}
                Some(Power::Off) => {
                    self.patch(json!({ "status": { "phase": "Succeeded" } }))
                        .await;
                    return terminal.shutdown().await;
                }
                Some(Power::Reboot) => {
                    self.forget_agent().await;
                    terminal.write_all(self.shell.greeting().as_bytes()).await?;
                }
            }
        }
    }

    /// The guest agent connects again after a boot.
    async fn forget_agent(&self) {
        let Ok(instance) = self.instances.get(&self.name).await else {
            return;
        };
        let conditions = instance.data.pointer("/status/conditions");
        let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        let others = conditions.filter(|condition| condition["type"] != "AgentConnected");
        let others: Vec<&Value> = others.collect();
        self.patch(json!({ "status": { "conditions": others, "guestOSInfo": null } }))
            .await;
    }

    async fn patch(&self, patch: Value) {
        let params = PatchParams::default();
        let patched = self
            .instances
            .patch(&self.name, &params, &Patch::Merge(patch))
            .await;
        if let Err(error) = patched {
            tracing::debug!(%error, "the guest cannot change its instance");
        }
    }
}
