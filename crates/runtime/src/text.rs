//! Truncation and escaping of text from other programs.

/// The longest prefix of `text` of at most `bytes` bytes that ends at a character boundary.
pub(crate) fn prefix(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

/// Whether `character` ends a line or controls a terminal.
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
    fn a_prefix_ends_at_a_character_boundary() {
        assert_eq!(prefix("äöü", 3), "ä");
        assert_eq!(prefix("äöü", 4), "äö");
        assert_eq!(prefix("äöü", 40), "äöü");
        assert_eq!(prefix("", 1), "");
    }

    #[test]
    fn lines_are_joined_by_spaces() {
        assert_eq!(one_line(" a\r\n\tb\x1b[0m \u{2028}c\0"), "a b [0m c");
    }
}
