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
#[case(json!({"secretRef": {"name": "bootstrap", "key": "absent"}}), "spec.cloudInit.secretRef.key")]
#[case(json!({"userDataBase64": "%"}), "spec.cloudInit.userDataBase64")]
#[case(json!({"networkDataBase64": "/w=="}), "spec.cloudInit")]
#[case(json!({"networkDataSecretRef": {"name": "absent"}}), "spec.cloudInit.networkDataSecretRef.name")]
#[case(json!({"userDataConfigMapRef": {"name": "absent"}}), "spec.cloudInit.userDataConfigMapRef.name")]
#[case(
    json!({"secretRef": {"name": "bootstrap"}, "userDataSecretRef": {"name": "bootstrap"}}),
    "spec.cloudInit.userDataSecretRef"
)]
fn without_content_is_an_error(#[case] cloud_init: Value, #[case] path: &str) {
    assert_eq!(
        error(json!({"cloudInit": cloud_init})),
        (ErrorType::InvalidSpec, path.to_owned())
    );
}

/// As other programs of the Viti stack write it, to have addresses without user data.
#[rstest]
#[case(json!({}))]
#[case(json!({"type": "noCloud"}))]
#[case(json!({"userData": "", "networkData": ""}))]
fn without_data_the_guest_gets_an_empty_configuration(#[case] cloud_init: Value) {
    assert!(user_data(cloud_init) == UserData::Content(b"#cloud-config\n".to_vec()));
}

#[rstest]
#[case::base64(json!({"userDataBase64": "aGVs\nbG8="}), "hello")]
#[case::inline_first(json!({"userData": "a", "userDataBase64": "aGVsbG8="}), "a")]
#[case::secret(json!({"userDataSecretRef": {"name": "bootstrap", "key": ""}}), "from secret")]
#[case::config_map(json!({"userDataConfigMapRef": {"name": "init"}}), "from map")]
#[case::secret_first(
    json!({"userDataConfigMapRef": {"name": "init"}, "secretRef": {"name": "bootstrap"}}),
    "from secret"
)]
#[case::binary(json!({"userDataConfigMapRef": {"name": "init", "key": "raw"}}), "raw")]
fn user_data_has_one_source(#[case] cloud_init: Value, #[case] expected: &str) {
    let cluster = Surroundings {
        config_maps: config_maps(),
        ..cluster()
    };
    let machine = resolved_in(&cluster, json!({"cloudInit": cloud_init}));
    let user_data = machine.cloud_init.unwrap().user_data;
    assert!(user_data == Some(UserData::Content(expected.as_bytes().to_vec())));
}

#[rstest]
#[case(json!({"networkDataBase64": "aGVsbG8="}), "hello")]
#[case(json!({"networkDataSecretRef": {"name": "bootstrap", "key": "userdata"}}), "from secret")]
#[case(json!({"networkDataConfigMapRef": {"name": "init"}}), "network from map")]
#[case(json!({"networkData": "a", "networkDataConfigMapRef": {"name": "absent"}}), "a")]
fn network_data_has_one_source(#[case] cloud_init: Value, #[case] expected: &str) {
    let cluster = Surroundings {
        config_maps: config_maps(),
        ..cluster()
    };
    let machine = resolved_in(&cluster, json!({"cloudInit": cloud_init}));
    let cloud_init = machine.cloud_init.unwrap();
    assert!(cloud_init.network_data == Some(NetworkData::Content(expected.to_owned())));
    assert!(cloud_init.user_data.is_none());
}

fn config_maps() -> Known<ConfigMap> {
    let map = object(json!({
        "metadata": {"name": "init"},
        "data": {"userdata": "from map", "networkdata": "network from map"},
        "binaryData": {"raw": "cmF3"},
    }));
    Known::all([("init".to_owned(), Arc::new(map))])
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
