//! API server of a single scenario, which e2e/run starts and which ends with the scenario.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// Command that e2e/run runs beside the server: prints the kubeconfig's path, then waits for the end of
/// its input.
const WAIT_COMMAND: &str = r#"echo "KUBECONFIG=$KUBECONFIG"; exec cat >/dev/null"#;

/// Ends the server when dropped.
pub(crate) struct Server {
    pub(crate) kubeconfig: PathBuf,
    process: Child,
}

impl Server {
    /// Starts a server. The error contains the output of e2e/run.
    pub(crate) fn start() -> Result<Self, String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../e2e/run");
        let mut process = Command::new(script)
            .args(["--", "sh", "-c", WAIT_COMMAND])
            .env_remove("KUBECONFIG_E2E")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{script}: {error}"))?;
        let mut output_lines = String::new();
        let output = process.stdout.take().into_iter();
        for line in output.flat_map(|output| BufReader::new(output).lines()) {
            let line = line.map_err(|error| error.to_string())?;
            if let Some(path) = line.strip_prefix("KUBECONFIG=") {
                return Ok(Self {
                    kubeconfig: path.into(),
                    process,
                });
            }
            output_lines.push_str(&line);
            output_lines.push('\n');
        }
        let _ = process.wait();
        Err(format!(
            "{script} could not start a server:\n{output_lines}"
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
