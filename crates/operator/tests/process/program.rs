//! `kubevirt-operator run` as a process.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;

use crate::cluster::{ApiEndpoint, until};

/// The command, with an empty environment.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubevirt-operator"));
    command.arg("run").env_clear().stdin(Stdio::null());
    command
}

/// Running operator, killed when dropped.
pub(crate) struct Program {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

/// Response of the probe or metrics server.
pub(crate) struct Page {
    pub(crate) code: u16,
    pub(crate) body: String,
}

impl Program {
    /// Starts an operator that connects to `endpoint`, with additional settings.
    pub(crate) fn start(endpoint: &ApiEndpoint, settings: &[(&str, &str)]) -> Self {
        let mut child = command()
            .env("KUBECONFIG", &endpoint.kubeconfig)
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

    /// Log lines so far.
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

    /// Waits for the exit, and returns status and log.
    pub(crate) async fn wait_for_exit(mut self) -> (ExitStatus, Vec<String>) {
        let mut status = None;
        until("the end of the operator", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        self.reader.take().unwrap().join().unwrap();
        (status.unwrap(), self.lines())
    }

    pub(crate) async fn probe(&self, path: &str) -> Page {
        get(self.serving("probes").await, path)
    }

    pub(crate) async fn metrics(&self) -> String {
        let page = get(self.serving("metrics").await, "/metrics");
        assert_eq!(page.code, 200, "{}", page.body);
        page.body
    }

    /// Address that it logs for a server.
    pub(crate) async fn serving(&self, what: &str) -> SocketAddr {
        let message = format!("Serving {what}");
        let mut address = None;
        until(&message, async || {
            let lines = self.lines();
            let line_with_address = lines.iter().find(|line| line.contains(&message));
            address = line_with_address.map(|line| {
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
        // Fails if the process has ended.
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
