//! Commands `ssh` and `scp`: the local programs of these names, through a tunnel.
//!
//! The local program does everything that concerns keys, configuration and known hosts. Its host is
//! `NAME.NAMESPACE.machine`, a name that is only used to look up known hosts and configuration.

use std::{collections::BTreeSet, process::Command};

use clap::Args;

use crate::{
    failure::{ExitCode, Failure},
    read,
    session::Session,
};

/// Log in to a guest with the local ssh
///
/// Its exit code is that of ssh.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  kubectl machine ssh debian@web
  kubectl machine ssh debian@web -- -i ~/.ssh/lab uptime")]
pub struct Ssh {
    /// Machine, with the user in front of it if the local user has another name there
    #[arg(value_name = "[USER@]NAME")]
    target: String,

    /// Port of the guest
    #[arg(short, long, value_name = "PORT", default_value_t = 22)]
    port: u16,

    /// Options of ssh, then the command to run in the guest
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

/// Copy files to or from a guest with the local scp
///
/// One of the paths is in the guest: [USER@]NAME:PATH. Its exit code is that of scp.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  kubectl machine scp site.conf debian@web:/tmp/
  kubectl machine scp debian@web:/var/log/syslog . -- -C")]
pub struct Scp {
    /// Paths, the last of which is the destination
    #[arg(value_name = "PATH", num_args = 2.., required = true)]
    paths: Vec<String>,

    /// Port of the guest
    #[arg(short = 'P', long, value_name = "PORT", default_value_t = 22)]
    port: u16,

    /// Options of scp
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl Ssh {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        let (user, name) = match self.target.rsplit_once('@') {
            Some((user, name)) => (Some(user), name),
            None => (None, self.target.as_str()),
        };
        read::machine(&session.client, &session.namespace, name).await?;
        let host = host(name, &session.namespace);
        let mut command = Command::new("ssh");
        command.args(["-o", &proxy(session, name, self.port)]);
        command.arg(match user {
            Some(user) => format!("{user}@{host}"),
            None => host,
        });
        // OpenSSH also reads options behind the host.
        command.args(self.args);
        Err(replace(command))
    }
}

impl Scp {
    pub(crate) async fn run(self, session: &mut Session) -> Result<ExitCode, Failure> {
        let names: BTreeSet<&str> = self.paths.iter().filter_map(|path| remote(path)).collect();
        let mut names = names.into_iter();
        let (Some(name), None) = (names.next(), names.next()) else {
            return Err(Failure::Other(
                "name one Machine, as [USER@]NAME:PATH, in the paths".to_owned(),
            ));
        };
        read::machine(&session.client, &session.namespace, name).await?;
        let host = host(name, &session.namespace);
        let mut command = Command::new("scp");
        command.args(["-o", &proxy(session, name, self.port)]);
        command.args(&self.args);
        for path in &self.paths {
            command.arg(match remote(path) {
                Some(_) => path.replacen(&format!("{name}:"), &format!("{host}:"), 1),
                None => path.clone(),
            });
        }
        Err(replace(command))
    }
}

/// The Machine of a path in a guest; none for local paths.
fn remote(path: &str) -> Option<&str> {
    let (host, _) = path.split_once(':')?;
    // As in scp, a path with a slash before the colon is local.
    let is_local = host.contains('/') || host.is_empty();
    let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
    (!is_local).then_some(name)
}

fn host(name: &str, namespace: &str) -> String {
    format!("{name}.{namespace}.machine")
}

/// Option with the command that connects to the guest: this program.
fn proxy(session: &Session, name: &str, port: u16) -> String {
    let port = port.to_string();
    let words = session.program.iter().map(String::as_str);
    let words = words.chain(["port-forward", "--stdio", name, &port]);
    let words: Vec<String> = words.map(quoted).collect();
    format!("ProxyCommand={}", words.join(" "))
}

/// A word for the shell, in which ssh also expands `%`.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=@,+".contains(c);
    let word = word.replace('%', "%%");
    if !word.is_empty() && word.chars().all(|c| is_plain(c) || c == '%') {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Runs a program in place of this one, so that terminal, signals and exit code are its own. Returns only
/// if that fails.
#[cfg(unix)]
fn replace(mut command: Command) -> Failure {
    use std::os::unix::process::CommandExt as _;
    let error = command.exec();
    let program = command.get_program().to_string_lossy().into_owned();
    Failure::Other(format!(
        "cannot run {program}: {error}: install OpenSSH's client"
    ))
}

#[cfg(not(unix))]
fn replace(mut command: Command) -> Failure {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => Failure::Other(format!(
            "cannot run {program}: {error}: install OpenSSH's client"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_a_guest_name_it() {
        assert_eq!(remote("debian@web:/tmp"), Some("web"));
        assert_eq!(remote("web:"), Some("web"));
        for local in ["site.conf", "./a:b", "/a:b", ":a"] {
            assert_eq!(remote(local), None, "{local}");
        }
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(
            quoted("/usr/bin/kubectl-machine"),
            "/usr/bin/kubectl-machine"
        );
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("50%"), "50%%");
        assert_eq!(quoted(""), "''");
    }
}
