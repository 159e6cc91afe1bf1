//! Phases of a Machine and the transitions between them.
//!
//! The specification's table with two additions: Failed ends when its cause does, and a Machine with
//! `powerState: Stopped` goes from Creating to Stopped.

use api::Phase::{self, Creating, Failed, Pending, Running, Stopped};

/// The next phase on the way to `target`. A Machine without a phase is Pending.
///
/// Without an allowed transition the phase stays: once a machine was created it is never Creating or
/// Pending again, except after Failed.
pub(super) fn next(current: Option<Phase>, target: Phase) -> Phase {
    let current = current.unwrap_or(Pending);
    match (current, target) {
        (_, Failed)
        | (Failed, _)
        | (Pending, Pending | Creating)
        | (Creating, Creating | Running | Stopped)
        | (Running | Stopped, Running | Stopped) => target,
        (Pending, Running | Stopped) => Creating,
        (Creating, Pending) | (Running | Stopped, Pending | Creating) => current,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::reference(Pending, Creating)]
    #[case::reference(Pending, Failed)]
    #[case::reference(Creating, Running)]
    #[case::reference(Creating, Failed)]
    #[case::reference(Running, Stopped)]
    #[case::reference(Running, Failed)]
    #[case::reference(Stopped, Running)]
    #[case::reference(Stopped, Failed)]
    #[case::asked_not_to_run(Creating, Stopped)]
    #[case::the_cause_is_gone(Failed, Pending)]
    #[case::the_cause_is_gone(Failed, Creating)]
    #[case::the_cause_is_gone(Failed, Running)]
    #[case::the_cause_is_gone(Failed, Stopped)]
    fn allowed(#[case] from: Phase, #[case] to: Phase) {
        assert_eq!(next(Some(from), to), to);
    }

    #[rstest]
    #[case::goes_by_creating(Pending, Running, Creating)]
    #[case::goes_by_creating(Pending, Stopped, Creating)]
    #[case(Creating, Pending, Creating)]
    #[case(Running, Pending, Running)]
    #[case(Running, Creating, Running)]
    #[case(Stopped, Pending, Stopped)]
    #[case(Stopped, Creating, Stopped)]
    fn forbidden(#[case] from: Phase, #[case] to: Phase, #[case] instead: Phase) {
        assert_eq!(next(Some(from), to), instead);
    }

    #[rstest]
    fn a_phase_stays(#[values(Pending, Creating, Running, Stopped, Failed)] phase: Phase) {
        assert_eq!(next(Some(phase), phase), phase);
    }

    #[rstest]
    #[case(Pending, Pending)]
    #[case(Creating, Creating)]
    #[case(Failed, Failed)]
    #[case(Running, Creating)]
    #[case(Stopped, Creating)]
    fn a_new_machine_is_pending(#[case] target: Phase, #[case] expected: Phase) {
        assert_eq!(next(None, target), expected);
    }
}
