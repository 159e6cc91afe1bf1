//! Wildcard patterns of object names.

/// Whether a text matches a pattern with `*` (any characters) and `?` (one character).
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to backtrack to: after the last star, and one character further in the text.
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
