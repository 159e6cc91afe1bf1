//! Invalid settings of `run`.

use std::process::{Command, Output};

fn run(args: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubevirt-operator"))
        .arg("run")
        .args(args)
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn an_invalid_variable_is_named_and_prevents_the_start() {
    let output = run(
        &["--client-burst", "many"],
        &[("RECONCILE_INTERVAL", "soon"), ("LEADER_ELECTION", "maybe")],
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: LEADER_ELECTION (--leader-election): \"maybe\" must be one of true, false, 1, 0\n\
         error: RECONCILE_INTERVAL (--reconcile-interval): \"soon\" must be a duration of at least \
         1s, such as 30s or 1m30s\n\
         error: CLIENT_BURST (--client-burst): \"many\" must be a whole number from 1 to \
         4294967295\n"
    );
}

#[test]
fn an_empty_variable_counts_as_unset_and_a_flag_takes_precedence() {
    let output = run(
        &["--log-level", "info", "--client-qps", "fast"],
        &[
            ("RECONCILE_INTERVAL", ""),
            ("MAX_CONCURRENT_RECONCILES", ""),
            ("NAMESPACE", ""),
            ("LOG_LEVEL", "loud"),
            ("CLIENT_QPS", "10"),
        ],
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: CLIENT_QPS (--client-qps): \"fast\" must be a whole number from 1 to 4294967295\n"
    );
}
