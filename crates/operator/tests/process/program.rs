//! The operator as a process.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;

use crate::ground::{Door, until};

/// The command, with nothing in its environment.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubevirt-operator"));
    command.arg("run").env_clear().stdin(Stdio::null());
    command
}

/// An operator that runs, and is killed when it is dropped.
pub(crate) struct Program {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

/// An answer of probes or metrics.
pub(crate) struct Page {
    pub(crate) code: u16,
    pub(crate) body: String,
}

impl Program {
    /// Starts an operator that goes through `door`, with these settings besides.
    pub(crate) fn start(door: &Door, settings: &[(&str, &str)]) -> Self {
        let mut child = command()
            .env("KUBECONFIG", &door.kubeconfig)
            .env("METRICS_BIND_ADDRESS", "127.0.0.1:0")
            .env("HEALTH_PROBE_BIND_ADDRESS", "127.0.0.1:0")
            .envs(settings.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (read, stderr) = (Arc::clone(&lines), child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                read.lock().unwrap().push(line.unwrap());
            }
        });
        Self {
            child,
            lines,
            reader: Some(reader),
        }
    }

    /// What it has logged up to now.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Sends a signal, such as `TERM`.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Waits for its end; tells how it ended and all that it has logged.
    pub(crate) async fn ended(mut self) -> (ExitStatus, Vec<String>) {
        let mut status = None;
        until("the end of the operator", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        self.reader.take().unwrap().join().unwrap();
        (status.unwrap(), self.lines())
    }

    /// Asks a probe.
    pub(crate) async fn probe(&self, path: &str) -> Page {
        get(self.serving("probes").await, path)
    }

    /// Reads the metrics.
    pub(crate) async fn metrics(&self) -> String {
        let page = get(self.serving("metrics").await, "/metrics");
        assert_eq!(page.code, 200, "{}", page.body);
        page.body
    }

    /// Where it says that it serves.
    pub(crate) async fn serving(&self, what: &str) -> SocketAddr {
        let message = format!("Serving {what}");
        let mut address = None;
        until(&message, async || {
            let lines = self.lines();
            let said = lines.iter().find(|line| line.contains(&message));
            address = said.map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                line["address"].as_str().unwrap().parse().unwrap()
            });
            address.is_some()
        })
        .await;
        address.unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It is gone already, unless the test has failed or does not care.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: SocketAddr, path: &str) -> Page {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split_ascii_whitespace().nth(1).unwrap();
    Page {
        code: code.parse().unwrap(),
        body: body.to_owned(),
    }
}
