use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use rstest::rstest;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    given: Flags,
}

/// Parses flags with this environment.
fn resolve(flags: &[&str], environment: &[(&str, &str)]) -> Result<Settings, String> {
    let command = Line::command().mut_args(|arg| arg.env(None));
    let matches = command.try_get_matches_from([&["virt-operator"], flags].concat());
    let given = Line::from_arg_matches(&matches.unwrap()).unwrap().given;
    let environment = environment
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    given.resolve(|| None, environment).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
        lines.join("\n")
    })
}

#[test]
fn defaults_are_those_of_the_reference() {
    let settings = resolve(&[], &[]).unwrap();
    assert_eq!(settings.client_qps.get(), 50);
    assert_eq!(settings.client_burst.get(), 100);
    assert_eq!(settings.metrics_bind_address, BindAddress::Everywhere(8186));
    assert_eq!(settings.webhook_bind_address, BindAddress::Everywhere(8444));
    assert_eq!(settings.operator.namespace, "kubevirt");
    assert_eq!(
        settings.operator.service_account,
        "virt-operator-install-strategy"
    );
    assert!(settings.common.leader_election);
}

#[rstest]
#[case("0")]
#[case("-1")]
#[case("many")]
#[case("1.5")]
fn an_invalid_rate_is_refused(#[case] rate: &str) {
    let flag = format!("--client-qps={rate}");
    let error = resolve(&[&flag], &[]).unwrap_err();
    assert_eq!(
        error,
        format!(
            "VIRT_OPERATOR_CLIENT_QPS (--client-qps): {rate:?} must be a whole number from 1 to \
             4294967295"
        )
    );
}

#[test]
fn images_and_passed_on_variables_come_from_the_environment() {
    let environment = [
        (
            "OPERATOR_IMAGE",
            "registry.example/old/virt-operator:v1.0.0",
        ),
        ("VIRT_API_IMAGE", "registry.example/virt-api@sha256:1"),
        ("GS_IMAGE", " "),
        ("KV_IO_EXTRA_ENV_PROXY", "http://proxy.example?a=b=c"),
        ("KV_IO_EXTRA_ENV_", "nothing"),
        ("PATH", "/bin"),
    ];
    let operator = resolve(&[], &environment).unwrap().operator;
    let image = operator.image.unwrap();
    assert_eq!(image, "registry.example/old/virt-operator:v1.0.0");
    let images = [("VIRT_API_IMAGE", "registry.example/virt-api@sha256:1")];
    let expected: BTreeMap<_, _> = images.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(operator.images, expected);
    let passed = [("PROXY", "http://proxy.example?a=b=c")];
    let expected: BTreeMap<_, _> = passed.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(operator.passthrough, expected);
}

#[test]
fn the_image_flag_takes_precedence_over_the_old_variable() {
    let flag = "--virt-operator-image=registry.example/virt-operator:v1.9.0";
    let old = [("OPERATOR_IMAGE", "registry.example/virt-operator:v1.0.0")];
    let image = resolve(&[flag], &old).unwrap().operator.image.unwrap();
    assert_eq!(image, "registry.example/virt-operator:v1.9.0");
}

#[test]
fn values_of_variables_are_not_in_the_help() {
    let command = Line::command();
    let mut arguments = command
        .get_arguments()
        .filter(|arg| arg.get_env().is_some());
    assert!(arguments.all(clap::Arg::is_hide_env_values_set));
}
