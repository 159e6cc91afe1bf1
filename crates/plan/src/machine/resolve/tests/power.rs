//! Power state.

use super::*;

#[rstest]
#[case(json!({}), PowerState::Running)]
#[case(json!({"powerState": "Running"}), PowerState::Running)]
#[case(json!({"powerState": "Stopped"}), PowerState::Stopped)]
#[case(json!({"powerState": "Paused"}), PowerState::Paused)]
fn runs_by_default(#[case] spec: Value, #[case] expected: PowerState) {
    assert_eq!(resolved(spec).power_state, expected);
}

#[test]
fn restarted_at_does_not_affect_the_resolved_machine() {
    assert_eq!(
        resolved(json!({"restartedAt": "2026-01-01T00:00:00Z"})),
        resolved(json!({}))
    );
}
