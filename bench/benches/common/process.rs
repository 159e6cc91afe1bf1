//! Program in a separate process.

use std::{
    fs,
    io::{BufRead as _, BufReader},
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

/// Process that is killed on drop.
pub struct Process {
    child: Child,
    log: Option<BufReader<ChildStderr>>,
}

impl Process {
    /// Starts a command whose errors are readable by [`line`](Self::line).
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let log = child.stderr.take().map(BufReader::new);
        Self { child, log }
    }

    /// This program as a subcommand of `kubevirt-operator`, without the environment of this process.
    pub fn operator(subcommand: &str) -> Command {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.arg(subcommand).env_clear();
        command
    }

    /// Waits for a line of its log that contains `text`, and returns it; the rest is discarded.
    pub async fn line(&mut self, text: &'static str) -> String {
        let mut log = self.log.take().expect("it is called once");
        let read = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            while !line.contains(text) {
                line.clear();
                let length = log.read_line(&mut line).expect("the log is text");
                assert!(length > 0, "the program has ended without {text:?}");
            }
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            line
        });
        read.await.expect("the program runs")
    }

    /// Discards its log.
    #[allow(
        dead_code,
        reason = "not every benchmark runs programs whose log it does not read"
    )]
    pub fn discard_log(&mut self) {
        if let Some(mut log) = self.log.take() {
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        }
    }

    /// CPU time of all threads, in steps of 10 ms.
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))
            .expect("the program runs, on Linux");
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
            .expect("the program runs, on Linux");
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
