//! Values of string and bytes literals.

/// The value of a literal with its quotes and perhaps the prefix `r`.
pub(super) fn unescape(literal: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    const FAILED: &str = "unable to unescape string";
    let text = literal.replace("\r\n", "\n").replace('\r', "\n");
    let (text, is_raw) = match text.strip_prefix(['r', 'R']) {
        Some(text) => (text, true),
        None => (text.as_str(), false),
    };
    let quote = ["\"\"\"", "'''", "\"", "'"]
        .into_iter()
        .find(|quote| text.len() >= 2 * quote.len() && text.starts_with(quote));
    let text = quote
        .and_then(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .ok_or(FAILED)?;
    if is_raw || !text.contains('\\') {
        return Ok(text.as_bytes().to_vec());
    }
    let mut value = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if letter != '\\' {
            let (plain, after) = rest.split_at(letter.len_utf8());
            value.extend_from_slice(plain.as_bytes());
            rest = after;
            continue;
        }
        let escaped = rest.get(1..).ok_or(FAILED)?;
        rest = unescape_one(escaped, is_bytes, &mut value)?;
    }
    Ok(value)
}

/// Adds the character after a backslash to `value` and returns the rest.
fn unescape_one<'t>(
    text: &'t str,
    is_bytes: bool,
    value: &mut Vec<u8>,
) -> Result<&'t str, &'static str> {
    const FAILED: &str = "unable to unescape string";
    let first = text.bytes().next().ok_or(FAILED)?;
    let simple = match first {
        b'a' => Some(7),
        b'b' => Some(8),
        b'f' => Some(0x0c),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'v' => Some(0x0b),
        b'\\' | b'\'' | b'"' | b'`' | b'?' => Some(first),
        _ => None,
    };
    if let Some(byte) = simple {
        value.push(byte);
        return text.get(1..).ok_or(FAILED);
    }
    let (digits, after, radix) = match first {
        b'x' | b'X' => (text.get(1..3), text.get(3..), 16),
        b'u' if !is_bytes => (text.get(1..5), text.get(5..), 16),
        b'U' if !is_bytes => (text.get(1..9), text.get(9..), 16),
        b'0'..=b'3' => (text.get(..3), text.get(3..), 8),
        _ => return Err(FAILED),
    };
    let code = u32::from_str_radix(digits.ok_or(FAILED)?, radix).map_err(|_| FAILED)?;
    if is_bytes {
        value.push(u8::try_from(code).map_err(|_| FAILED)?);
    } else {
        let letter = char::from_u32(code).ok_or("invalid unicode code point")?;
        value.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    }
    after.ok_or(FAILED)
}
