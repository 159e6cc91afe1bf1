//! Command `console`: the serial console of a guest.
//!
//! The terminal is raw while it is connected: all keys go to the guest, except the escape character Ctrl-].
//! A lost connection, such as a restart of the guest, is opened again, until the Machine is to be stopped.

use std::{
    io::{Read as _, Write},
    time::Duration,
};

use clap::Args;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, duplex, split},
    sync::mpsc,
    time::sleep,
};
use websocket::{Role, tunnel};

use crate::{
    failure::{ExitCode, Failure},
    family::vm_name,
    read::{self, text},
    session::Session,
    tunnel::{Target, Tunnel},
};

/// Ctrl-], the escape character of telnet and virsh.
const ESCAPE: u8 = 0x1d;
const RETRY: Duration = Duration::from_secs(1);
const BUFFER: usize = 64 * 1024;

/// Connect to the serial console of a guest
///
/// Ctrl-] ends it. A lost connection is opened again, also after a restart of the guest. A guest shows a
/// login only after Enter, and needs a getty on its serial port (ttyS0).
#[derive(Args, Debug)]
pub struct Console {
    /// Name of the Machine
    #[arg(value_name = "NAME")]
    name: String,
}

/// Why a connection ended.
enum End {
    Escaped,
    Lost,
}

impl Console {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        let machine = read::machine(&session.client, &session.namespace, &self.name).await?;
        let target = Target::console(&session.namespace, vm_name(&machine));
        // Before the terminal is raw: most refusals come with the first attempt.
        let mut connection = Some(target.open(&session.client).await?);
        let _raw = RawMode::enter();
        let mut keys = keys();
        notify(
            session,
            &format!(
                "Connected to {}. The escape character is Ctrl-].",
                self.name
            ),
        );
        loop {
            if let Some(connection) = connection.take() {
                match attach(connection, &mut keys, &mut session.out).await? {
                    End::Escaped => return Ok(ExitCode::Done),
                    End::Lost => notify(session, "Connection lost, reconnecting. Ctrl-] ends it."),
                }
            }
            tokio::select! {
                typed = keys.recv() => {
                    if typed.is_none_or(|keys| keys.contains(&ESCAPE)) {
                        return Ok(ExitCode::Done);
                    }
                }
                () = sleep(RETRY) => {}
            }
            match target.open(&session.client).await {
                Ok(opened) => {
                    notify(session, "Connected again.");
                    connection = Some(opened);
                }
                Err(
                    failure @ Failure::Api {
                        code: Some(401 | 403),
                        ..
                    },
                ) => return Err(failure),
                // The guest starts again, unless the Machine is gone or to be stopped.
                Err(_) => {
                    let machine =
                        read::machine(&session.client, &session.namespace, &self.name).await;
                    let is_stopped =
                        machine.is_ok_and(|it| text(&it, "/spec/powerState") == "Stopped");
                    if is_stopped {
                        notify(session, &format!("Machine {} is stopped.", self.name));
                        return Ok(ExitCode::Done);
                    }
                }
            }
        }
    }
}

/// Prints a line; a raw terminal does not return to the first column by itself.
fn notify(session: &mut Session, message: &str) {
    // Nothing can be reported when standard error is closed.
    let _ = write!(session.err, "\r\n{message}\r\n");
    let _ = session.err.flush();
}

/// What is typed, read by a thread: a read of a terminal cannot be cancelled.
fn keys() -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut buffer = [0; 1024];
        let mut input = std::io::stdin().lock();
        while let Ok(length @ 1..) = input.read(&mut buffer) {
            let typed = buffer.get(..length).unwrap_or_default().to_vec();
            if send.blocking_send(typed).is_err() {
                return;
            }
        }
    });
    receive
}

/// Copies between a console and the terminal.
async fn attach(
    connection: Tunnel,
    keys: &mut mpsc::Receiver<Vec<u8>>,
    out: &mut Box<dyn Write + Send>,
) -> Result<End, Failure> {
    let (near, far) = duplex(BUFFER);
    let (reader, writer) = split(near);
    let (mut output, mut input) = split(far);
    let copying = tunnel(connection, Role::Client, reader, writer);
    tokio::pin!(copying);
    let mut is_open = true;
    let mut buffer = [0; 4096];
    loop {
        tokio::select! {
            // What the guest sent last is still to be shown.
            _ = &mut copying, if is_open => is_open = false,
            read = output.read(&mut buffer) => match read? {
                0 => return Ok(End::Lost),
                length => {
                    out.write_all(buffer.get(..length).unwrap_or_default())?;
                    out.flush()?;
                }
            },
            typed = keys.recv(), if is_open => {
                let Some(typed) = typed else {
                    return Ok(End::Escaped);
                };
                let escape = typed.iter().position(|key| *key == ESCAPE);
                let sent = typed.get(..escape.unwrap_or(typed.len())).unwrap_or_default();
                // Fails if the guest has closed the connection, which is noticed next.
                let _ = input.write_all(sent).await;
                if escape.is_some() {
                    return Ok(End::Escaped);
                }
            }
        }
    }
}

/// Raw mode of the terminal, until it is dropped.
#[cfg(unix)]
struct RawMode(rustix::termios::Termios);

#[cfg(unix)]
impl RawMode {
    /// None without a terminal.
    fn enter() -> Option<Self> {
        use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

#[cfg(unix)]
impl Drop for RawMode {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        // The terminal may be gone.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(not(unix))]
struct RawMode;

#[cfg(not(unix))]
impl RawMode {
    fn enter() -> Option<Self> {
        None
    }
}
