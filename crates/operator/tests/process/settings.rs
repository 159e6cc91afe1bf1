//! Settings that cannot be used.

use crate::program::command;

#[test]
fn a_malformed_setting_stops_the_start_with_one_clear_line() {
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
fn every_malformed_setting_is_told_at_once() {
    let output = command()
        .env("MAX_CONCURRENT_RECONCILES", "0")
        .env("WATCH_NAMESPACES", "web,Not_A_Name")
        .env("LOG_FORMAT", "xml")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    let variables: Vec<_> = told
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
        "{told}"
    );
}

#[test]
fn a_kubeconfig_that_is_not_there_ends_the_start_and_is_named() {
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
