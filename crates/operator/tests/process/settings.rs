//! Invalid settings.

use crate::program::command;

#[test]
fn a_malformed_setting_prevents_the_start_with_one_clear_line() {
    let output = command()
        .env("METRICS_BIND_ADDRESS", "everywhere")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: METRICS_BIND_ADDRESS (--metrics-bind-address): \"everywhere\" must be :PORT, \
         IP:PORT or [IPv6]:PORT, or 0 to turn it off\n"
    );
}

#[test]
fn all_malformed_settings_are_reported_at_once() {
    let output = command()
        .env("MAX_CONCURRENT_RECONCILES", "0")
        .env("WATCH_NAMESPACES", "web,Not_A_Name")
        .env("LOG_FORMAT", "xml")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let variables: Vec<_> = stderr
        .lines()
        .map(|line| line.split([' ', '(']).nth(1).unwrap())
        .collect();
    assert_eq!(
        variables,
        [
            "LOG_FORMAT",
            "MAX_CONCURRENT_RECONCILES",
            "WATCH_NAMESPACES"
        ],
        "{stderr}"
    );
}

#[test]
fn a_missing_kubeconfig_prevents_the_start_and_is_named() {
    let output = command()
        .env("KUBECONFIG", "/nowhere/kubeconfig")
        .env("METRICS_BIND_ADDRESS", "0")
        .env("HEALTH_PROBE_BIND_ADDRESS", "0")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("/nowhere/kubeconfig cannot be used"), "{log}");
}
