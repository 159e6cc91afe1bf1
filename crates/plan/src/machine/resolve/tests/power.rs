use super::*;

#[rstest]
#[case(json!({}), PowerState::Running)]
#[case(json!({"powerState": "Running"}), PowerState::Running)]
#[case(json!({"powerState": "Stopped"}), PowerState::Stopped)]
#[case(json!({"powerState": "Paused"}), PowerState::Paused)]
fn is_running_unless_said_otherwise(#[case] spec: Value, #[case] expected: PowerState) {
    assert_eq!(resolved(spec).power_state, expected);
}

#[test]
fn a_restart_does_not_change_what_the_machine_is() {
    assert_eq!(
        resolved(json!({"restartedAt": "2026-01-01T00:00:00Z"})),
        resolved(json!({}))
    );
}
