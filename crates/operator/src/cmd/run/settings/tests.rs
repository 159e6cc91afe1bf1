use std::ffi::OsStr;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use rstest::rstest;
use runtime::logs::{Format, Level};

use super::*;
use crate::webhook_certificate::Certificates;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    given: Flags,
}

/// Parses flags, independent of the environment.
fn flags(flags: &[&str]) -> Flags {
    let command = Line::command().mut_args(|arg| arg.env(None));
    let matches = command.try_get_matches_from([&["run"], flags].concat());
    Line::from_arg_matches(&matches.unwrap()).unwrap().given
}

fn resolve(args: &[&str]) -> Result<Settings, String> {
    flags(args).resolve(|| None).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
        lines.join("\n")
    })
}

#[test]
fn defaults_are_those_of_the_reference() {
    let expected = Settings {
        common: Common {
            kubeconfig: Vec::new(),
            leader_election: true,
            log_level: Level::Info,
            log_format: Format::Json,
        },
        reconcile_interval: Duration::from_secs(30),
        max_concurrent_reconciles: 5,
        metrics_bind_address: BindAddress::Everywhere(8080),
        health_probe_bind_address: BindAddress::Everywhere(8081),
        namespace: "kubevirt-operator-system".to_owned(),
        watch_namespaces: BTreeSet::new(),
        clone_source_namespaces: BTreeSet::new(),
        passed_on: PassedOn::none(),
        machine_provider: Provider::default(),
        kubevirt_config: None,
        watch_secrets: true,
        client_qps: 100.try_into().unwrap(),
        client_burst: 200.try_into().unwrap(),
        webhook: webhook::Settings::default(),
    };
    assert_eq!(Flags::default().resolve(|| None), Ok(expected));
}

#[test]
fn an_empty_value_counts_as_not_set() {
    let every: Vec<String> = Line::command()
        .get_arguments()
        .filter_map(|arg| Some(format!("--{}=", arg.get_long()?)))
        .filter(|flag| flag != "--help=")
        .collect();
    assert_eq!(every.len(), 23);
    let every: Vec<&str> = every.iter().map(String::as_str).collect();
    assert_eq!(resolve(&every), resolve(&[]));
}

#[test]
fn every_setting_can_be_set() {
    let settings = resolve(&[
        "--kubeconfig=/a:/b",
        "--reconcile-interval=1m30s",
        "--max-concurrent-reconciles=20",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=127.0.0.1:9000",
        "--leader-election=false",
        "--namespace=ops",
        "--watch-namespaces=b, a,,b",
        "--clone-source-namespaces=images",
        "--passed-on-labels=team,example.com/*",
        "--passed-on-annotations=example.com/ticket",
        "--machine-provider=kubevirt-east",
        "--kubevirt-config=east",
        "--watch-secrets=false",
        "--log-level=debug",
        "--log-format=text",
        "--client-qps=5",
        "--client-burst=1",
        "--webhook-bind-address=:9443",
        "--webhook-certificates=external",
        "--webhook-service=hook",
        "--webhook-configuration=hooks.example",
        "--webhook-secret=hook-tls",
    ]);
    let names = settings.as_ref().unwrap().webhook.names("ops");
    assert_eq!(names.host(), "hook.ops.svc");
    assert_eq!(names.configuration, "hooks.example");
    assert_eq!(names.authority(), "hook-tls-ca");
    let expected = Settings {
        common: Common {
            kubeconfig: vec!["/a".into(), "/b".into()],
            leader_election: false,
            log_level: Level::Debug,
            log_format: Format::Text,
        },
        reconcile_interval: Duration::from_secs(90),
        max_concurrent_reconciles: 20,
        metrics_bind_address: BindAddress::Off,
        health_probe_bind_address: BindAddress::At(([127, 0, 0, 1], 9000).into()),
        namespace: "ops".to_owned(),
        watch_namespaces: ["a", "b"].map(str::to_owned).into(),
        clone_source_namespaces: ["images"].map(str::to_owned).into(),
        passed_on: PassedOn {
            labels: NamePatterns::parse("team,example.com/*").unwrap(),
            annotations: NamePatterns::parse("example.com/ticket").unwrap(),
        },
        machine_provider: Provider::new("kubevirt-east"),
        kubevirt_config: Some("east".to_owned()),
        watch_secrets: false,
        client_qps: 5.try_into().unwrap(),
        client_burst: 1.try_into().unwrap(),
        webhook: settings.as_ref().unwrap().webhook.clone(),
    };
    assert_eq!(expected.webhook.address, BindAddress::Everywhere(9443));
    assert_eq!(expected.webhook.certificates, Certificates::External);
    assert_eq!(settings, Ok(expected));
}

#[rstest]
#[case(
    "reconcile-interval",
    "abc",
    "must be a duration of at least 1s, such as 30s or 1m30s"
)]
#[case(
    "machine-provider",
    "a b",
    "must be the name of a provider: at most 63"
)]
#[case("kubevirt-config", "East_1", "must be the name of a KubevirtConfig")]
#[case("webhook-certificates", "both", "must be one of managed, external")]
#[case(
    "webhook-bind-address",
    "9443",
    "must be :PORT, IP:PORT or [IPv6]:PORT"
)]
#[case("webhook-service", "1st", "must be the name of a Service: at most 63")]
#[case("webhook-service", "a.b", "must be the name of a Service: at most 63")]
#[case(
    "webhook-configuration",
    "a..b",
    "must be the name of an object: at most 253"
)]
#[case(
    "webhook-secret",
    "Certs",
    "must be the name of an object: at most 253"
)]
#[case("reconcile-interval", "30", "must be a duration of at least 1s")]
#[case("reconcile-interval", "0", "must be a duration of at least 1s")]
#[case("reconcile-interval", "0s", "must be a duration of at least 1s")]
#[case("reconcile-interval", "-30s", "must be a duration of at least 1s")]
#[case("reconcile-interval", "999ms", "must be a duration of at least 1s")]
#[case("reconcile-interval", "9999999h", "must be a duration of at least 1s")]
#[case(
    "max-concurrent-reconciles",
    "0",
    "must be a whole number from 1 to 1000"
)]
#[case(
    "max-concurrent-reconciles",
    "-1",
    "must be a whole number from 1 to 1000"
)]
#[case(
    "max-concurrent-reconciles",
    "1.5",
    "must be a whole number from 1 to 1000"
)]
#[case(
    "max-concurrent-reconciles",
    "1001",
    "must be a whole number from 1 to 1000"
)]
#[case(
    "metrics-bind-address",
    "8080",
    "must be :PORT, IP:PORT or [IPv6]:PORT, or 0"
)]
#[case(
    "health-probe-bind-address",
    ":99999",
    "must be :PORT, IP:PORT or [IPv6]:PORT, or 0"
)]
#[case("leader-election", "yes", "must be one of true, false, 1, 0")]
#[case("namespace", "Ops", "must be the name of a namespace")]
#[case("namespace", "-ops", "must be the name of a namespace")]
#[case("namespace", "a/b", "must be the name of a namespace")]
#[case(
    "watch-namespaces",
    "a,B",
    "must be names of namespaces, separated by commas"
)]
#[case(
    "watch-namespaces",
    "a b",
    "must be names of namespaces, separated by commas"
)]
#[case(
    "log-level",
    "verbose",
    "must be one of error, warn, info, debug, trace"
)]
#[case("log-format", "yaml", "must be one of json, text")]
#[case("client-qps", "0", "must be a whole number from 1")]
#[case("client-qps", "0.5", "must be a whole number from 1")]
#[case("client-qps", "-1", "must be a whole number from 1")]
#[case("client-burst", "0", "must be a whole number from 1")]
#[case("client-burst", "4294967296", "must be a whole number from 1")]
fn an_invalid_value_is_reported_with_the_valid_ones(
    #[case] flag: &str,
    #[case] value: &str,
    #[case] allowed: &str,
) {
    let problem = resolve(&[&format!("--{flag}={value}")]).unwrap_err();
    let variable = flag.to_ascii_uppercase().replace('-', "_");
    let expected = format!("{variable} (--{flag}): {value:?} {allowed}");
    assert!(problem.starts_with(&expected), "{problem}");
    assert_eq!(problem.lines().count(), 1);
}

#[test]
fn all_invalid_values_are_reported_at_once() {
    let problems = resolve(&["--log-level=loud", "--client-qps=fast"]).unwrap_err();
    assert_eq!(problems.lines().count(), 2, "{problems}");
}

#[rstest]
#[case(&[], true)]
#[case(&["--leader-election"], true)]
#[case(&["--leader-election", "false"], false)]
#[case(&["--leader-election=0"], false)]
#[case(&["--leader-election=1"], true)]
#[case(&["--leader-election=True"], true)]
fn leader_election_accepts_an_optional_value(#[case] args: &[&str], #[case] expected: bool) {
    assert_eq!(resolve(args).unwrap().common.leader_election, expected);
}

#[rstest]
#[case(&[], Some("ops"), "ops")]
#[case(&["--namespace=mine"], Some("ops"), "mine")]
#[case(&[], Some(""), "kubevirt-operator-system")]
#[case(&[], None, "kubevirt-operator-system")]
fn the_namespace_defaults_to_that_of_the_pod(
    #[case] args: &[&str],
    #[case] pod: Option<&str>,
    #[case] expected: &str,
) {
    let settings = flags(args).resolve(|| pod.map(str::to_owned)).unwrap();
    assert_eq!(settings.namespace, expected);
}

#[test]
fn every_flag_has_its_variable() {
    let expected = [
        "KUBECONFIG",
        "LEADER_ELECTION",
        "LOG_LEVEL",
        "LOG_FORMAT",
        "RECONCILE_INTERVAL",
        "MAX_CONCURRENT_RECONCILES",
        "METRICS_BIND_ADDRESS",
        "HEALTH_PROBE_BIND_ADDRESS",
        "NAMESPACE",
        "WATCH_NAMESPACES",
        "CLONE_SOURCE_NAMESPACES",
        "PASSED_ON_LABELS",
        "PASSED_ON_ANNOTATIONS",
        "MACHINE_PROVIDER",
        "KUBEVIRT_CONFIG",
        "WATCH_SECRETS",
        "CLIENT_QPS",
        "CLIENT_BURST",
        "WEBHOOK_BIND_ADDRESS",
        "WEBHOOK_CERTIFICATES",
        "WEBHOOK_SERVICE",
        "WEBHOOK_CONFIGURATION",
        "WEBHOOK_SECRET",
    ];
    let command = Line::command();
    let found: Vec<(&str, &str)> = command
        .get_arguments()
        .filter_map(|arg| Some((arg.get_env().and_then(OsStr::to_str)?, arg.get_long()?)))
        .collect();
    let variables: Vec<&str> = found.iter().map(|(variable, _)| *variable).collect();
    assert_eq!(variables, expected);
    for (variable, flag) in found {
        assert_eq!(flag, variable.to_ascii_lowercase().replace('_', "-"));
    }
}

#[test]
fn values_of_variables_are_not_in_the_help() {
    let command = Line::command();
    let mut arguments = command
        .get_arguments()
        .filter(|arg| arg.get_env().is_some());
    assert!(arguments.all(clap::Arg::is_hide_env_values_set));
}
