//! Completion of names in the shell.
//!
//! kubectl calls an executable `kubectl_complete-machine` with the words after `kubectl machine`, the last
//! of them incomplete. It prints candidates, one per line, and a directive of the cobra library: `:4`, no
//! files.

use clap::{Args, Command as Clap, Subcommand as _};

use crate::{
    Command, Connection,
    kinds::MACHINE,
    read::{self, Scope, name},
    session::Session,
};

/// Prints the candidates for the last word.
pub async fn complete(words: &[String], session: &mut Session) -> std::io::Result<()> {
    let found = candidates(words, session).await;
    for candidate in found {
        writeln!(session.out, "{candidate}")?;
    }
    writeln!(session.out, ":4")?;
    session.out.flush()
}

/// Value of a flag in the words that were typed; the last one counts.
pub(crate) fn value<'a>(words: &'a [String], names: &[&str]) -> Option<&'a str> {
    let mut words = words.iter().map(String::as_str);
    let mut found = None;
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((name, value)) if names.contains(&name) => found = Some(value),
            None if names.contains(&word) => found = words.next(),
            _ => {}
        }
    }
    found
}

async fn candidates(words: &[String], session: &Session) -> Vec<String> {
    let Some((typed, before)) = words.split_last() else {
        return Vec::new();
    };
    let commands = Connection::augment_args(Command::augment_subcommands(Clap::new("machine")));
    let chosen = before
        .iter()
        .find_map(|word| commands.find_subcommand(word));
    let starts = |candidate: &String| candidate.starts_with(typed.as_str());
    let mut found: Vec<String> = match chosen {
        None => {
            let all = commands
                .get_subcommands()
                .filter(|command| !command.is_hide_set());
            all.map(|command| command.get_name().to_owned()).collect()
        }
        Some(command) if typed.starts_with('-') => {
            let flags = command.get_arguments().chain(commands.get_arguments());
            flags
                .filter_map(clap::Arg::get_long)
                .map(|flag| format!("--{flag}"))
                .collect()
        }
        Some(command) if command.get_name() == "create" => Vec::new(),
        Some(_) => {
            let scope = Scope {
                namespace: Some(&session.namespace),
                labels: None,
            };
            // Without an answer there is nothing to complete.
            let machines = read::list_metadata(&session.client, MACHINE, scope).await;
            let machines = machines.unwrap_or_default();
            machines
                .iter()
                .map(|machine| name(machine).to_owned())
                .collect()
        }
    };
    found.retain(starts);
    found.retain(|candidate| !before.contains(candidate));
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_in_the_words() {
        for (typed, expected) in [
            ("stop -n shop we", Some("shop")),
            ("--namespace=shop stop we", Some("shop")),
            ("stop we", None),
        ] {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            assert_eq!(value(&words, &["-n", "--namespace"]), expected, "{typed}");
        }
    }
}
