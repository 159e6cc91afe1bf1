//! Error messages of Go's `encoding/json` for invalid input.

/// Error that Go reports for `bytes`, which are not valid JSON.
pub fn error(bytes: &[u8]) -> String {
    let mut scan = Scan { bytes, at: 0 };
    match scan.document() {
        Err(error) => error,
        // Input that Go accepts and serde_json does not, such as deep nesting.
        Ok(()) => "exceeded max depth".to_owned(),
    }
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Go's nesting limit.
const DEPTH: usize = 10_000;

const END: &str = "unexpected end of JSON input";

impl Scan<'_> {
    fn peek(&mut self) -> Result<u8, String> {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.bytes
            .get(self.at)
            .copied()
            .ok_or_else(|| END.to_owned())
    }

    fn document(&mut self) -> Result<(), String> {
        // Open containers: true for an object, false for an array.
        let mut open: Vec<bool> = Vec::new();
        loop {
            self.value(&mut open)?;
            loop {
                let Some(object) = open.last().copied() else {
                    return match self.peek() {
                        Err(_) => Ok(()),
                        Ok(byte) => Err(unexpected(byte, "after top-level value")),
                    };
                };
                let byte = self.peek()?;
                self.at += 1;
                match (byte, object) {
                    (b',', true) => {
                        self.key("looking for beginning of object key string")?;
                        break;
                    }
                    (b',', false) => break,
                    (b'}', true) | (b']', false) => {
                        open.pop();
                    }
                    (byte, true) => return Err(unexpected(byte, "after object key:value pair")),
                    (byte, false) => return Err(unexpected(byte, "after array element")),
                }
            }
        }
    }

    /// Scans a scalar or an empty container, or opens a container.
    fn value(&mut self, open: &mut Vec<bool>) -> Result<(), String> {
        loop {
            if open.len() > DEPTH {
                return Err("exceeded max depth".to_owned());
            }
            let byte = self.peek()?;
            match byte {
                b'{' => {
                    self.at += 1;
                    if self.peek()? == b'}' {
                        self.at += 1;
                        return Ok(());
                    }
                    open.push(true);
                    self.key("looking for beginning of object key string")?;
                }
                b'[' => {
                    self.at += 1;
                    if self.peek()? == b']' {
                        self.at += 1;
                        return Ok(());
                    }
                    open.push(false);
                }
                b'"' => return self.text(),
                b't' => return self.literal("true"),
                b'f' => return self.literal("false"),
                b'n' => return self.literal("null"),
                b'-' | b'0'..=b'9' => return self.number(),
                byte => return Err(unexpected(byte, "looking for beginning of value")),
            }
        }
    }

    fn key(&mut self, place: &str) -> Result<(), String> {
        let byte = self.peek()?;
        if byte != b'"' {
            return Err(unexpected(byte, place));
        }
        self.text()?;
        let byte = self.peek()?;
        self.at += 1;
        if byte == b':' {
            Ok(())
        } else {
            Err(unexpected(byte, "after object key"))
        }
    }

    fn text(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            let byte = self.bytes.get(self.at).copied().ok_or(END)?;
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => {
                    let escaped = self.bytes.get(self.at).copied().ok_or(END)?;
                    self.at += 1;
                    if !b"\"\\/bfnrtu".contains(&escaped) {
                        return Err(unexpected(escaped, "in string escape code"));
                    }
                }
                0..=0x1f => return Err(unexpected(byte, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            let byte = self.bytes.get(self.at).copied().ok_or(END)?;
            if byte != expected {
                let place = format!("in literal {word} (expecting {})", quoted(expected));
                return Err(unexpected(byte, &place));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        self.digits("in numeric literal")?;
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, place: &str) -> Result<(), String> {
        let first = self.bytes.get(self.at).copied().ok_or(END)?;
        if !first.is_ascii_digit() {
            return Err(unexpected(first, place));
        }
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }
}

fn unexpected(byte: u8, place: &str) -> String {
    format!("invalid character {} {place}", quoted(byte))
}

fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x20..=0x7e => format!("'{}'", char::from(byte)),
        0xa1..=0xff if byte != 0xad => format!("'{}'", char::from(byte)),
        byte => format!("'\\x{byte:02x}'"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", "unexpected end of JSON input")]
    #[case("{", "unexpected end of JSON input")]
    #[case("nonsense", "invalid character 'o' in literal null (expecting 'u')")]
    #[case(
        "{a: 1}",
        "invalid character 'a' looking for beginning of object key string"
    )]
    #[case(r#"{"a" 1}"#, "invalid character '1' after object key")]
    #[case(
        r#"{"a": 1 "b"}"#,
        "invalid character '\"' after object key:value pair"
    )]
    #[case("[1 2]", "invalid character '2' after array element")]
    #[case("[1,]", "invalid character ']' looking for beginning of value")]
    #[case("{} x", "invalid character 'x' after top-level value")]
    #[case("1.x", "invalid character 'x' after decimal point in numeric literal")]
    fn errors_match_go(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(error(text.as_bytes()), expected);
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(error(deep.as_bytes()), "exceeded max depth");
    }
}
