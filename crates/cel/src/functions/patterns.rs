//! Regular expressions, in the syntax of Go.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

use regex::Regex;

use crate::value::{Error, Result};

/// More than the rules of a schema have; patterns that are computed from objects are not kept beyond
/// it.
const MAX_KEPT: usize = 1024;

/// A pattern, compiled once: that takes far longer than using it, and rules use the same few for
/// every object.
pub(crate) fn compiled(pattern: &str) -> Result<Arc<Regex>> {
    static KEPT: LazyLock<RwLock<HashMap<String, Arc<Regex>>>> = LazyLock::new(RwLock::default);
    let known = KEPT.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(pattern) {
        return Ok(Arc::clone(known));
    }
    drop(known);
    let compiled = Arc::new(compile(pattern).map_err(Error::new)?);
    let mut known = KEPT.write().unwrap_or_else(PoisonError::into_inner);
    if known.len() < MAX_KEPT {
        known.insert(pattern.to_owned(), Arc::clone(&compiled));
    }
    Ok(compiled)
}

/// [`compiled`] with the error of `find` and `findAll`.
pub(super) fn for_search(pattern: &str) -> Result<Arc<Regex>> {
    compiled(pattern).map_err(|error| Error::new(format!("Illegal regex: {error}")))
}

/// Compiles a pattern of Go; the error has its words, where they are known.
pub fn compile(pattern: &str) -> std::result::Result<Regex, String> {
    let Some(translated) = translated(pattern) else {
        return Err(format!(
            "error parsing regexp: invalid or unsupported Perl syntax: `{pattern}`"
        ));
    };
    Regex::new(&translated).map_err(|error| why(pattern, &error))
}

fn why(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let from = |found: Option<usize>| found.and_then(|index| pattern.get(index..));
    let (reason, part) = if text.contains("unclosed group") {
        ("missing closing )", None)
    } else if text.contains("unopened group") {
        ("unexpected )", None)
    } else if text.contains("unclosed character class") {
        ("missing closing ]", from(pattern.find('[')))
    } else if text.contains("repetition operator missing expression") {
        let operator = from(pattern.find(['*', '+', '?'])).and_then(|rest| rest.get(..1));
        ("missing argument to repetition operator", operator)
    } else if text.contains("look-around") {
        let group = from(pattern.find("(?")).and_then(|rest| rest.get(..3));
        ("invalid or unsupported Perl syntax", group)
    } else {
        return format!("error parsing regexp: {text}");
    };
    format!(
        "error parsing regexp: {reason}: `{}`",
        part.unwrap_or(pattern)
    )
}

/// The pattern in the syntax of the `regex` crate; `None` if Go refuses it.
///
/// In Go, `\d`, `\w`, `\s` and `\b` know only ASCII, and classes have no operators and no classes
/// inside.
fn translated(pattern: &str) -> Option<String> {
    let mut translated = String::with_capacity(pattern.len() + 16);
    let mut letters = pattern.chars().peekable();
    // Letters since the opening bracket of a class.
    let mut in_class: Option<usize> = None;
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            let escaped = letters.next()?;
            let class = match escaped {
                'd' => "0-9",
                'w' => "0-9A-Za-z_",
                's' => "\\t\\n\\f\\r ",
                'D' => "^0-9",
                'W' => "^0-9A-Za-z_",
                'S' => "^\\t\\n\\f\\r ",
                'b' | 'B' if in_class.is_none() => {
                    translated.push_str("(?-u:\\");
                    translated.push(escaped);
                    translated.push(')');
                    continue;
                }
                // Escapes that only the crate knows.
                '<' | '>' if in_class.is_none() => {
                    translated.push(escaped);
                    continue;
                }
                'C' | 'u' | 'U' | 'K' | 'R' | 'h' | 'H' | 'Z' | 'b' | 'B' | 'G' => return None,
                'Q' => {
                    let mut quoted = String::new();
                    while let Some(letter) = letters.next() {
                        if letter == '\\' && letters.peek() == Some(&'E') {
                            letters.next();
                            break;
                        }
                        quoted.push(letter);
                    }
                    translated.push_str(&regex::escape(&quoted));
                    continue;
                }
                _ => {
                    translated.push('\\');
                    translated.push(escaped);
                    in_class = in_class.map(|count| count + 1);
                    continue;
                }
            };
            translated.push('[');
            translated.push_str(class);
            translated.push(']');
            in_class = in_class.map(|count| count + 1);
            continue;
        }
        match in_class {
            None => {
                translated.push(letter);
                if letter == '[' {
                    if letters.peek() == Some(&'^') {
                        letters.next();
                        translated.push('^');
                    }
                    in_class = Some(0);
                } else if letter == '('
                    && letters.peek() == Some(&'?')
                    && has_unknown_flags(letters.clone())
                {
                    return None;
                }
            }
            Some(count) => {
                match letter {
                    ']' if count > 0 => {
                        translated.push(']');
                        in_class = None;
                        continue;
                    }
                    // `[[:alpha:]]` is a class of names; any other bracket is a letter.
                    '[' if letters.peek() == Some(&':') => translated.push('['),
                    '[' | ']' | '&' | '~' => {
                        translated.push('\\');
                        translated.push(letter);
                    }
                    '-' if letters.peek() == Some(&'-') => translated.push_str("\\-"),
                    _ => translated.push(letter),
                }
                if letter == '[' && letters.peek() == Some(&':') {
                    // Up to the end of the name.
                    for named in letters.by_ref() {
                        translated.push(named);
                        if named == ']' {
                            break;
                        }
                    }
                }
                in_class = Some(count + 1);
            }
        }
    }
    Some(translated)
}

/// Whether a group has flags that only the crate knows: `x`, `u` and `R`.
fn has_unknown_flags(after: impl Iterator<Item = char> + Clone) -> bool {
    let mut inside = after.skip(1);
    if inside
        .clone()
        .next()
        .is_some_and(|first| matches!(first, 'P' | '<'))
    {
        return false;
    }
    inside
        .by_ref()
        .take_while(|letter| letter.is_ascii_alphabetic() || *letter == '-')
        .any(|flag| matches!(flag, 'x' | 'u' | 'R'))
}
