//! Operator in a separate process.

use std::{path::Path, time::Duration};

use crate::process::{Memory, Process};

pub struct OperatorProcess(Process);

impl OperatorProcess {
    /// Starts it with a high rate limit and this resync interval.
    pub fn start(kubeconfig: &Path, resync: Duration) -> Self {
        let mut command = Process::operator("run");
        command
            .env("KUBECONFIG", kubeconfig)
            .env("LEADER_ELECTION", "false")
            .env("METRICS_BIND_ADDRESS", "0")
            .env("HEALTH_PROBE_BIND_ADDRESS", "0")
            .env("CLIENT_QPS", "100000")
            .env("CLIENT_BURST", "100000")
            .env("RECONCILE_INTERVAL", format!("{}s", resync.as_secs()));
        Self(Process::spawn(&mut command))
    }

    /// Waits until its caches are synced.
    pub async fn synced(&mut self) {
        self.0.line("caches are synced").await;
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

    pub fn cpu_time(&self) -> Duration {
        self.0.cpu_time()
    }

    pub fn memory(&self) -> Memory {
        self.0.memory()
    }
}
