//! Cloud-init data.

use super::*;

fn user_data(spec: Value) -> UserData {
    resolved(json!({"cloudInit": spec}))
        .cloud_init
        .unwrap()
        .user_data
        .unwrap()
}

#[test]
fn inline_user_data_wins_over_a_secret() {
    let both = json!({"userData": "inline", "secretRef": {"name": "absent", "key": "k"}});
    assert!(user_data(both) == UserData::Content(b"inline".to_vec()));
}

#[test]
fn user_data_comes_from_the_key_userdata_of_a_secret() {
    assert!(
        user_data(json!({"secretRef": {"name": "bootstrap"}}))
            == UserData::Content(b"from secret".to_vec())
    );
}

#[test]
fn a_secret_as_the_api_server_returns_it_is_read_too() {
    let secrets = Known::all([secret("s", json!({"data": {"k": "aGVsbG8="}}))]);
    let cluster = Surroundings {
        secrets,
        ..cluster()
    };
    let machine = resolved_in(
        &cluster,
        json!({"cloudInit": {"secretRef": {"name": "s", "key": "k"}}}),
    );
    assert!(machine.cloud_init.unwrap().user_data == Some(UserData::Content(b"hello".to_vec())));
}

#[rstest]
#[case(json!({"secretRef": {"name": "absent"}}), "spec.cloudInit.secretRef.name")]
#[case(json!({"userData": "", "networkData": ""}), "spec.cloudInit")]
#[case(json!({"secretRef": {"name": "bootstrap", "key": "absent"}}), "spec.cloudInit.secretRef.key")]
#[case(json!({}), "spec.cloudInit")]
fn without_content_is_an_error(#[case] cloud_init: Value, #[case] path: &str) {
    assert_eq!(
        error(json!({"cloudInit": cloud_init})),
        (ErrorType::InvalidSpec, path.to_owned())
    );
}

#[test]
fn empty_user_data_does_not_win_over_a_secret() {
    let both = json!({"userData": "", "secretRef": {"name": "bootstrap"}});
    assert!(user_data(both) == UserData::Content(b"from secret".to_vec()));
}

#[test]
fn the_users_secret_cannot_have_the_name_of_the_operators() {
    let secrets = Known::all([secret(
        "web-cloud-init",
        json!({"stringData": {"userdata": "x"}}),
    )]);
    let cluster = Surroundings {
        secrets,
        ..cluster()
    };
    let errors = errors_in(
        &cluster,
        json!({"cloudInit": {"secretRef": {"name": "web-cloud-init"}}}),
    );
    assert_eq!(errors[0].path, "spec.cloudInit.secretRef.name");
}

#[test]
fn more_than_fits_into_a_secret_is_an_error() {
    let spec = json!({"cloudInit": {"userData": "ä".repeat(524_288), "networkData": "x"}});
    assert_eq!(
        error(spec),
        (ErrorType::InvalidSpec, "spec.cloudInit".to_owned())
    );
}

#[test]
fn content_is_in_no_debug_output() {
    let written = machine(json!({"cloudInit": {"userData": "hunter2", "networkData": "hunter2"}}));
    assert!(!format!("{written:?}").contains("hunter2"));
    let machine = resolved(json!({"cloudInit": {"userData": "hunter2", "networkData": "hunter2"}}));
    assert!(!format!("{machine:?}").contains("hunter2"));
    let (_, secret) = secret(
        "s",
        json!({"stringData": {"a": "hunter2"}, "data": {"b": "aHVudGVyMg=="}}),
    );
    let shown = format!("{secret:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("104, 117"),
        "{shown}"
    );
}
