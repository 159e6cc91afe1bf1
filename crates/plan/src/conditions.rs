//! Conditions, by Kubernetes' conventions: one a type, each with the generation it tells of, and a
//! transition time that moves only with the status.

use api::{Condition, Time};

/// Room for a few sentences of others; a condition is not a log.
const LONGEST: usize = 1024;

/// What is to be told by a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// What it tells of.
    pub(crate) type_: &'static str,
    /// Whether it is so.
    pub(crate) holds: bool,
    /// Why, in a word.
    pub(crate) reason: &'static str,
    /// Why, in a sentence.
    pub(crate) message: String,
}

impl Said {
    /// It is so.
    pub(crate) fn yes(
        type_: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            holds: true,
            reason,
            message: message.into(),
        }
    }

    /// It is not so.
    pub(crate) fn no(
        type_: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            holds: false,
            ..Self::yes(type_, reason, message)
        }
    }
}

/// The condition of that type.
pub(crate) fn find<'a>(conditions: Option<&'a [Condition]>, type_: &str) -> Option<&'a Condition> {
    conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.type_ == type_)
}

/// The conditions that come of the old ones and of what is to be told now. Old ones of other types
/// stay as they are, and all stay in their places.
pub(crate) fn merged(
    old: Option<&[Condition]>,
    said: Vec<Said>,
    generation: Option<i64>,
    now: &Time,
) -> Vec<Condition> {
    let mut conditions = old.unwrap_or_default().to_vec();
    for said in said {
        let status = if said.holds { "True" } else { "False" };
        let new = Condition {
            type_: said.type_.to_owned(),
            status: status.to_owned(),
            reason: said.reason.to_owned(),
            message: bounded(said.message),
            observed_generation: generation,
            last_transition_time: now.clone(),
        };
        match conditions.iter_mut().find(|old| old.type_ == said.type_) {
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

/// A message that is not too long, whoever wrote it.
pub(crate) fn bounded(mut message: String) -> String {
    const CUT: &str = "...";
    if message.len() > LONGEST {
        let room = (0..=LONGEST.saturating_sub(CUT.len())).rev();
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
            vec![Said::no("Ready", "Creating", "a")],
            Some(1),
            &at(1),
        );
        let again = vec![Said::no("Ready", "Starting", "b")];
        let second = merged(Some(&first), again, Some(2), &at(2));
        assert_eq!(second[0].last_transition_time, at(1));
        assert_eq!(second[0].reason, "Starting");
        assert_eq!(second[0].observed_generation, Some(2));
        let third = vec![Said::yes("Ready", "Running", "c")];
        let third = merged(Some(&second), third, Some(2), &at(3));
        assert_eq!(third[0].last_transition_time, at(3));
        assert_eq!(third.len(), 1);
    }

    #[test]
    fn conditions_that_are_not_told_of_stay() {
        let old = merged(None, vec![Said::yes("Theirs", "Fine", "")], Some(1), &at(1));
        let new = vec![Said::yes("Ready", "Running", "")];
        let new = merged(Some(&old), new, Some(2), &at(2));
        assert_eq!(find(Some(&new), "Theirs"), old.first());
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = bounded("ø".repeat(LONGEST));
        assert!(long.len() <= LONGEST);
        assert!(long.ends_with("ø..."));
        assert_eq!(bounded("short".to_owned()), "short");
    }
}
