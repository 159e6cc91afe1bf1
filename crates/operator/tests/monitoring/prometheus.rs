//! Prometheus as a process.

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cluster::until,
    files::{RULES, list, read},
};

/// Attempts to start on a free port that another process may take first.
const ATTEMPTS: usize = 5;

/// Running Prometheus that scrapes every second, killed when dropped.
pub(crate) struct Prometheus {
    child: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Prometheus {
    /// Starts Prometheus with this project's rules and these targets with their labels.
    pub(crate) async fn start(targets: &[(SocketAddr, Value)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (file, name) in RULES {
            let groups = json!({ "groups": list(&read(file)["spec"]["groups"]) });
            fs::write(folder.path().join(name), groups.to_string()).unwrap();
        }
        let targets: Vec<_> = targets
            .iter()
            .map(|(address, labels)| json!({ "targets": [address.to_string()], "labels": labels }))
            .collect();
        let config = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": RULES.map(|(_, name)| name),
            "scrape_configs": [{ "job_name": "operators", "static_configs": targets }],
        });
        // YAML is a superset of JSON.
        fs::write(folder.path().join("prometheus.yaml"), config.to_string()).unwrap();
        for _ in 0..ATTEMPTS {
            let address = free();
            let mut child = spawn(&folder, address);
            let mut ended = None;
            until("Prometheus", async || {
                ended = child.try_wait().unwrap();
                ended.is_some() || get(address, "/-/ready").is_some_and(|it| it.contains("Ready"))
            })
            .await;
            if ended.is_none() {
                return Self {
                    child,
                    address,
                    folder,
                };
            }
        }
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        panic!("Prometheus does not start:\n{log}");
    }

    /// Result of an instant query.
    pub(crate) fn query(&self, query: &str) -> Vec<Value> {
        let path = format!("/api/v1/query?query={}", encoded(query));
        let answer = self.api(&path);
        assert_eq!(answer["status"], "success", "{query}\n{answer}");
        list(&answer["data"]["result"])
    }

    /// All rules with their last evaluation.
    pub(crate) fn rules(&self) -> Vec<Value> {
        let groups = list(&self.api("/api/v1/rules")["data"]["groups"]);
        let rules = groups.iter().flat_map(|group| list(&group["rules"]));
        rules.collect()
    }

    fn api(&self, path: &str) -> Value {
        let body = get(self.address, path);
        let body = body.unwrap_or_else(|| {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
            panic!("no answer to {path}\n{log}")
        });
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Fails if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free address. Prometheus does not print the port it was given.
fn free() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

fn spawn(folder: &TempDir, address: SocketAddr) -> Child {
    let log = fs::File::create(folder.path().join("log")).unwrap();
    Command::new("prometheus")
        .arg("--config.file=prometheus.yaml")
        .arg("--storage.tsdb.path=data")
        .arg(format!("--web.listen-address={address}"))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("prometheus runs")
}

/// Body of a response, if the server answers.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}

fn encoded(query: &str) -> String {
    query.bytes().fold(String::new(), |mut encoded, byte| {
        write!(encoded, "%{byte:02X}").unwrap();
        encoded
    })
}
