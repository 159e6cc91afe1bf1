//! Operator in a separate process.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    time::Duration,
};

/// Memory of a process, from `/proc`.
pub struct Memory {
    /// Resident now, in KiB.
    pub resident: u64,
    /// Resident at most, in KiB.
    pub most: u64,
}

/// Operator process that is killed on drop.
pub struct Process {
    child: Child,
    log: Option<BufReader<ChildStderr>>,
}

impl Process {
    /// Starts it with a high rate limit and this resync interval.
    pub fn start(kubeconfig: &Path, resync: Duration) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .arg("run")
            .env_clear()
            .env("KUBECONFIG", kubeconfig)
            .env("LEADER_ELECTION", "false")
            .env("METRICS_BIND_ADDRESS", "0")
            .env("HEALTH_PROBE_BIND_ADDRESS", "0")
            .env("CLIENT_QPS", "100000")
            .env("CLIENT_BURST", "100000")
            .env("RECONCILE_INTERVAL", format!("{}s", resync.as_secs()))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the operator starts");
        let log = child.stderr.take().map(BufReader::new);
        Self { child, log }
    }

    /// Waits until its caches are synced; the rest of its log is discarded.
    pub async fn synced(&mut self) {
        let mut log = self.log.take().expect("synced is called once");
        let read = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            while !line.contains("caches are synced") {
                line.clear();
                let length = log.read_line(&mut line).expect("the log is text");
                assert!(length > 0, "the operator has ended");
            }
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        });
        read.await.expect("the operator runs");
    }

    /// Waits until it has used little CPU for two seconds, at most for a minute: on a slow node
    /// resyncs alone may use more.
    pub async fn settled(&self) {
        const IDLE_CPU: Duration = Duration::from_millis(500);
        let mut cpu_time = self.cpu_time();
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let now = self.cpu_time();
            if now.saturating_sub(cpu_time) < IDLE_CPU {
                return;
            }
            cpu_time = now;
        }
    }

    /// CPU time of all threads, in steps of 10 ms.
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))
            .expect("the operator runs, on Linux");
        // The name of the program ends with the last parenthesis and may contain spaces.
        let (_, rest) = stat.rsplit_once(')').expect("it has a name");
        let ticks = rest.split_ascii_whitespace().skip(11).take(2);
        let ticks: u64 = ticks
            .map(|ticks| ticks.parse::<u64>().expect("it is a number"))
            .sum();
        Duration::from_millis(ticks * 10)
    }

    pub fn memory(&self) -> Memory {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .expect("the operator runs, on Linux");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_ascii_whitespace().next());
            number
                .and_then(|number| number.parse().ok())
                .expect("the kernel reports it")
        };
        Memory {
            resident: field("VmRSS:"),
            most: field("VmHWM:"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
