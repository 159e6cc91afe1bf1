//! Durations and patterns as people write them.

use std::time::Duration;

/// A duration such as `1m30s`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (amount, after) = rest.split_at(digits);
        let amount: u32 = amount.parse().ok()?;
        let letters = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let unit = match unit {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            _ => return None,
        };
        total = total.checked_add(unit.checked_mul(amount)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// Whether a text matches a pattern of `*` (anything) and `?` (one character).
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on after the last star, when what follows it does not match here.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == b'?' || Some(&c) == text.get(t) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    p = after;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("500ms", Some(500))]
    #[case("1m30s", Some(90_000))]
    #[case("2h", Some(7_200_000))]
    #[case("", None)]
    #[case("5", None)]
    #[case("s", None)]
    #[case("5 s", None)]
    #[case("99999999999s", None)]
    fn durations(#[case] text: &str, #[case] millis: Option<u64>) {
        assert_eq!(duration(text), millis.map(Duration::from_millis));
    }

    #[rstest]
    #[case("*", "", true)]
    #[case("*", "anything", true)]
    #[case("virt-*", "virt-api", true)]
    #[case("virt-*", "cdi-api", false)]
    #[case("*-api", "virt-api", true)]
    #[case("*a*b", "xaxab", true)]
    #[case("a?c", "abc", true)]
    #[case("a?c", "ac", false)]
    #[case("abc", "abcd", false)]
    fn patterns(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(matches(pattern, text), expected);
    }
}
