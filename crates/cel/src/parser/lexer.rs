//! Tokens of a source.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Symbol,
    Identifier,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'s> {
    pub(super) kind: TokenKind,
    pub(super) text: &'s str,
    /// Offset in characters.
    pub(super) position: usize,
}

/// Longer symbols first.
const SYMBOLS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%", "&", "|",
];

/// Tokens of `source`, ended by one of kind `End`; `None` if a part of it is no token.
pub(super) fn tokens(source: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let (mut rest, mut position) = (source, 0);
    loop {
        let skipped = blank(rest);
        if skipped > 0 {
            let (blank, after) = rest.split_at(skipped);
            position += blank.chars().count();
            rest = after;
            continue;
        }
        if rest.is_empty() {
            tokens.push(Token {
                kind: TokenKind::End,
                text: "",
                position,
            });
            return Some(tokens);
        }
        let (kind, length) = next(rest)?;
        let (text, after) = rest.split_at(length);
        tokens.push(Token {
            kind,
            text,
            position,
        });
        position += text.chars().count();
        rest = after;
    }
}

/// Length of white space or a comment.
fn blank(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    text.len()
        - text
            .trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}'])
            .len()
}

fn next(text: &str) -> Option<(TokenKind, usize)> {
    if let Some(found) = quoted(text).or_else(|| number(text)) {
        return Some(found);
    }
    let word = text
        .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .unwrap_or(text.len());
    if word > 0 && !text.starts_with(|first: char| first.is_ascii_digit()) {
        return Some((TokenKind::Identifier, word));
    }
    let symbol = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol))?;
    (!matches!(*symbol, "&" | "|")).then_some((TokenKind::Symbol, symbol.len()))
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn number(text: &str) -> Option<(TokenKind, usize)> {
    let bytes = text.as_bytes();
    let is_unsigned = |at: usize| matches!(bytes.get(at), Some(b'u' | b'U'));
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        let length = hexadecimal
            .bytes()
            .take_while(u8::is_ascii_hexdigit)
            .count();
        if length > 0 {
            let length = length + 2;
            return Some(if is_unsigned(length) {
                (TokenKind::Uint, length + 1)
            } else {
                (TokenKind::Int, length)
            });
        }
    }
    let whole = digits(text);
    let mut length = whole;
    let mut is_double = false;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits(text.get(length + 1..)?);
        if fraction > 0 {
            length += 1 + fraction;
            is_double = true;
        }
    }
    if length == 0 {
        return None;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(text.get(length + 1 + sign..)?);
        if exponent > 0 {
            length += 1 + sign + exponent;
            is_double = true;
        }
    }
    Some(match () {
        () if is_double => (TokenKind::Double, length),
        () if is_unsigned(length) => (TokenKind::Uint, length + 1),
        () => (TokenKind::Int, length),
    })
}

/// A string or bytes, with its prefix.
fn quoted(text: &str) -> Option<(TokenKind, usize)> {
    let mut start = 0;
    let mut kind = TokenKind::String;
    if text.starts_with(['b', 'B']) {
        kind = TokenKind::Bytes;
        start += 1;
    }
    let is_raw = text.get(start..)?.starts_with(['r', 'R']);
    start += usize::from(is_raw);
    let body = text.get(start..)?;
    let quote = ["\"\"\"", "'''", "\"", "'"]
        .into_iter()
        .find(|quote| body.starts_with(quote))?;
    let closed = closed(body, quote, is_raw);
    // `''` is an empty string, also where three quotes do not end.
    let closed = closed.or_else(|| closed_short(body, quote));
    Some((kind, start + closed?))
}

fn closed_short(body: &str, quote: &str) -> Option<usize> {
    (quote.len() == 3).then_some(2).filter(|_| body.len() >= 2)
}

/// Length of a string with its quotes.
fn closed(body: &str, quote: &str, is_raw: bool) -> Option<usize> {
    let mut at = quote.len();
    loop {
        let rest = body.get(at..)?;
        if rest.starts_with(quote) {
            return Some(at + quote.len());
        }
        let letter = rest.chars().next()?;
        if quote.len() == 1 && matches!(letter, '\n' | '\r') {
            return None;
        }
        if letter == '\\' && !is_raw {
            at += 1 + escape(rest.get(1..)?)?;
        } else {
            at += letter.len_utf8();
        }
    }
}

/// Length of an escape sequence after the backslash.
fn escape(text: &str) -> Option<usize> {
    let first = text.bytes().next()?;
    let follow = |count: usize, is_digit: fn(&u8) -> bool| {
        let digits = text.as_bytes().get(1..=count)?;
        digits.iter().all(is_digit).then_some(count + 1)
    };
    match first {
        b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => {
            Some(1)
        }
        b'x' | b'X' => follow(2, u8::is_ascii_hexdigit),
        b'u' => follow(4, u8::is_ascii_hexdigit),
        b'U' => follow(8, u8::is_ascii_hexdigit),
        b'0'..=b'3' => follow(2, |byte| (b'0'..=b'7').contains(byte)),
        _ => None,
    }
}
