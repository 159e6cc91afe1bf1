//! Text from elsewhere, made fit to be kept and shown.

/// The longest start of `text` that has at most `bytes` bytes and ends between two characters.
pub(crate) fn start(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

/// Whether `character` ends a line or is obeyed by a terminal.
pub(crate) fn is_control(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

/// `text` on one line: each run of white space and control characters becomes one space.
pub(crate) fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || is_control(c))
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_ends_between_characters() {
        assert_eq!(start("äöü", 3), "ä");
        assert_eq!(start("äöü", 4), "äö");
        assert_eq!(start("äöü", 40), "äöü");
        assert_eq!(start("", 1), "");
    }

    #[test]
    fn lines_are_joined() {
        assert_eq!(one_line(" a\r\n\tb\x1b[0m \u{2028}c\0"), "a b [0m c");
    }
}
