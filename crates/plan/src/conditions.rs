//! Status conditions by Kubernetes' API conventions: one per type, each with its observed generation,
//! and a transition time that changes only with the status.

use api::{Condition, Time};

/// Upper bound in bytes: messages may quote other components, and a condition is not a log.
const MAX_MESSAGE_LENGTH: usize = 1024;

/// New value of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConditionUpdate {
    pub(crate) type_: &'static str,
    pub(crate) is_true: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl ConditionUpdate {
    pub(crate) fn as_true(
        type_: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            is_true: true,
            reason,
            message: message.into(),
        }
    }

    pub(crate) fn as_false(
        type_: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            is_true: false,
            ..Self::as_true(type_, reason, message)
        }
    }
}

pub(crate) fn find<'a>(conditions: Option<&'a [Condition]>, type_: &str) -> Option<&'a Condition> {
    conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.type_ == type_)
}

/// Applies `updates` to the `old` conditions. Conditions of other types stay unchanged, and the order is kept.
pub(crate) fn merged(
    old: Option<&[Condition]>,
    updates: Vec<ConditionUpdate>,
    generation: Option<i64>,
    now: &Time,
) -> Vec<Condition> {
    let mut conditions = old.unwrap_or_default().to_vec();
    for update in updates {
        let status = if update.is_true { "True" } else { "False" };
        let new = Condition {
            type_: update.type_.to_owned(),
            status: status.to_owned(),
            reason: update.reason.to_owned(),
            message: bounded(update.message),
            observed_generation: generation,
            last_transition_time: now.clone(),
        };
        match conditions.iter_mut().find(|old| old.type_ == update.type_) {
            Some(old) if old.status == status => {
                let since = old.last_transition_time.clone();
                *old = Condition {
                    last_transition_time: since,
                    ..new
                };
            }
            Some(old) => *old = new,
            None => conditions.push(new),
        }
    }
    conditions
}

/// The `old` conditions with one whose value is unknown, given as type, reason and message.
pub(crate) fn with_unknown(
    old: Option<&[Condition]>,
    (type_, reason, message): (&str, &str, String),
    generation: Option<i64>,
    now: &Time,
) -> Vec<Condition> {
    let mut conditions = old.unwrap_or_default().to_vec();
    let was = conditions.iter_mut().find(|old| old.type_ == type_);
    let since = was.as_ref().filter(|old| old.status == "Unknown");
    let new = Condition {
        type_: type_.to_owned(),
        status: "Unknown".to_owned(),
        reason: reason.to_owned(),
        message: bounded(message),
        observed_generation: generation,
        last_transition_time: since
            .map_or_else(|| now.clone(), |it| it.last_transition_time.clone()),
    };
    match was {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
    conditions
}

/// Truncates a message to [`MAX_MESSAGE_LENGTH`].
pub(crate) fn bounded(mut message: String) -> String {
    const CUT: &str = "...";
    if message.len() > MAX_MESSAGE_LENGTH {
        let room = (0..=MAX_MESSAGE_LENGTH.saturating_sub(CUT.len())).rev();
        let end = room.into_iter().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or_default());
        message.push_str(CUT);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first = merged(
            None,
            vec![ConditionUpdate::as_false("Ready", "Creating", "a")],
            Some(1),
            &at(1),
        );
        let again = vec![ConditionUpdate::as_false("Ready", "Starting", "b")];
        let second = merged(Some(&first), again, Some(2), &at(2));
        assert_eq!(second[0].last_transition_time, at(1));
        assert_eq!(second[0].reason, "Starting");
        assert_eq!(second[0].observed_generation, Some(2));
        let third = vec![ConditionUpdate::as_true("Ready", "Running", "c")];
        let third = merged(Some(&second), third, Some(2), &at(3));
        assert_eq!(third[0].last_transition_time, at(3));
        assert_eq!(third.len(), 1);
    }

    #[test]
    fn conditions_of_other_types_stay() {
        let old = merged(
            None,
            vec![ConditionUpdate::as_true("Foreign", "Fine", "")],
            Some(1),
            &at(1),
        );
        let new = vec![ConditionUpdate::as_true("Ready", "Running", "")];
        let new = merged(Some(&old), new, Some(2), &at(2));
        assert_eq!(find(Some(&new), "Foreign"), old.first());
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = bounded("ø".repeat(MAX_MESSAGE_LENGTH));
        assert!(long.len() <= MAX_MESSAGE_LENGTH);
        assert!(long.ends_with("ø..."));
        assert_eq!(bounded("short".to_owned()), "short");
    }
}
