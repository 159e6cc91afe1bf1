//! API server that one story has to itself, started by e2e/run and gone with the story.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// What e2e/run runs beside the server: says where it is, and waits for the end of the story, which
/// is the end of its input.
const WAIT: &str = r#"echo "KUBECONFIG=$KUBECONFIG"; exec cat >/dev/null"#;

/// A server, which ends with this value.
pub(crate) struct Server {
    pub(crate) kubeconfig: PathBuf,
    process: Child,
}

impl Server {
    /// Starts a server, or says why there can be none.
    pub(crate) fn start() -> Result<Self, String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../e2e/run");
        let mut process = Command::new(script)
            .args(["--", "sh", "-c", WAIT])
            .env_remove("KUBECONFIG_E2E")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{script}: {error}"))?;
        let mut said = String::new();
        let output = process.stdout.take().into_iter();
        for line in output.flat_map(|output| BufReader::new(output).lines()) {
            let line = line.map_err(|error| error.to_string())?;
            if let Some(path) = line.strip_prefix("KUBECONFIG=") {
                return Ok(Self {
                    kubeconfig: path.into(),
                    process,
                });
            }
            said.push_str(&line);
            said.push('\n');
        }
        let _ = process.wait();
        Err(format!("{script} could not start a server:\n{said}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
