//! The operator as a process of its own.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    time::Duration,
};

/// What the kernel says of a process.
pub struct Memory {
    /// Resident now, in KiB.
    pub resident: u64,
    /// Resident at most, in KiB.
    pub most: u64,
}

/// An operator that runs, and is killed when it is dropped.
pub struct Process {
    child: Child,
    log: Option<BufReader<ChildStderr>>,
}

impl Process {
    /// Starts it, with no rate limit that matters, and everything looked at every `resync`.
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

    /// Waits until its caches are synced; the rest of its log is thrown away.
    pub async fn synced(&mut self) {
        let mut log = self.log.take().expect("this is asked once");
        let read = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            while !line.contains("caches are synced") {
                line.clear();
                let length = log.read_line(&mut line).expect("the log is text");
                assert!(length > 0, "the operator has ended");
            }
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        });
        read.await.expect("the operator goes on");
    }

    /// Waits until it has had little to do for two seconds, or for a minute: on a busy machine the
    /// looks alone may be more than little.
    pub async fn settled(&self) {
        const LITTLE: Duration = Duration::from_millis(500);
        let mut busy = self.busy();
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let now = self.busy();
            if now.saturating_sub(busy) < LITTLE {
                return;
            }
            busy = now;
        }
    }

    /// How long it has had a core, all threads together. The kernel counts in hundredths of a
    /// second.
    pub fn busy(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))
            .expect("the operator runs, on Linux");
        // The name of the program ends with the last parenthesis and may hold spaces.
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
                .expect("the kernel tells")
        };
        Memory {
            resident: field("VmRSS:"),
            most: field("VmHWM:"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
