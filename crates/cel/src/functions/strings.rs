//! Strings. Positions and sizes are those of characters.

use std::fmt::Write as _;

use super::{Function, format, patterns, refuse};
use crate::value::{Error, List, Result, Value};

pub(super) fn implementation(name: &str) -> Option<Function> {
    searches(name).or_else(|| transformations(name))
}

fn searches(name: &str) -> Option<Function> {
    Some(match name {
        "contains" => |_, arguments| match arguments {
            [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.contains(&**part))),
            _ => refuse("contains", arguments),
        },
        "startsWith" => |_, arguments| match arguments {
            [Value::String(text), Value::String(part)] => {
                Ok(Value::Bool(text.starts_with(&**part)))
            }
            _ => refuse("startsWith", arguments),
        },
        "endsWith" => |_, arguments| match arguments {
            [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.ends_with(&**part))),
            _ => refuse("endsWith", arguments),
        },
        "matches" => |_, arguments| match arguments {
            [Value::String(text), Value::String(pattern)] => {
                patterns::compiled(pattern).map(|pattern| Value::Bool(pattern.is_match(text)))
            }
            _ => Err(Error::no_such_overload()),
        },
        "find" => |_, arguments| match arguments {
            [Value::String(text), Value::String(pattern)] => {
                let pattern = patterns::for_search(pattern)?;
                let found = pattern.find(text).map_or("", |found| found.as_str());
                Ok(Value::text(found))
            }
            _ => refuse("find", arguments),
        },
        "findAll" => |_, arguments| match arguments {
            [Value::String(text), Value::String(pattern)] => find_all(text, pattern, -1),
            [
                Value::String(text),
                Value::String(pattern),
                Value::Int(most),
            ] => find_all(text, pattern, *most),
            _ => refuse("findAll", arguments),
        },
        // Lists have functions of these two names too.
        "indexOf" => |_, arguments| match arguments {
            [Value::List(list), item] => list_position(list, item, false),
            [Value::String(text), Value::String(part)] => index_of(text, part, 0),
            [Value::String(text), Value::String(part), Value::Int(from)] => {
                index_of(text, part, *from)
            }
            _ => refuse("indexOf", arguments),
        },
        "lastIndexOf" => |_, arguments| match arguments {
            [Value::List(list), item] => list_position(list, item, true),
            [Value::String(text), Value::String(part)] => {
                let last = count(text) - 1;
                if part.is_empty() {
                    Ok(Value::Int(last + 1))
                } else {
                    last_index_of(text, part, last)
                }
            }
            [Value::String(text), Value::String(part), Value::Int(from)] => {
                last_index_of(text, part, *from)
            }
            _ => refuse("lastIndexOf", arguments),
        },
        _ => return None,
    })
}

fn transformations(name: &str) -> Option<Function> {
    Some(match name {
        "charAt" => |_, arguments| match arguments {
            [Value::String(text), Value::Int(index)] => char_at(text, *index),
            _ => refuse("charAt", arguments),
        },
        "lowerAscii" => |_, arguments| match arguments {
            [Value::String(text)] => Ok(Value::text(text.to_ascii_lowercase())),
            _ => refuse("lowerAscii", arguments),
        },
        "upperAscii" => |_, arguments| match arguments {
            [Value::String(text)] => Ok(Value::text(text.to_ascii_uppercase())),
            _ => refuse("upperAscii", arguments),
        },
        "trim" => |_, arguments| match arguments {
            [Value::String(text)] => Ok(Value::text(text.trim())),
            _ => refuse("trim", arguments),
        },
        "replace" => |_, arguments| match arguments {
            [Value::String(text), Value::String(old), Value::String(new)] => {
                Ok(Value::text(text.replace(&**old, new)))
            }
            [
                Value::String(text),
                Value::String(old),
                Value::String(new),
                Value::Int(most),
            ] => Ok(Value::text(match usize::try_from(*most) {
                Ok(most) => text.replacen(&**old, new, most),
                Err(_) => text.replace(&**old, new),
            })),
            _ => refuse("replace", arguments),
        },
        "split" => |_, arguments| match arguments {
            [Value::String(text), Value::String(separator)] => Ok(split(text, separator, -1)),
            [
                Value::String(text),
                Value::String(separator),
                Value::Int(most),
            ] => Ok(split(text, separator, *most)),
            _ => refuse("split", arguments),
        },
        "substring" => |_, arguments| match arguments {
            [Value::String(text), Value::Int(start)] => substring(text, *start, count(text)),
            [Value::String(text), Value::Int(start), Value::Int(end)] => {
                substring(text, *start, *end)
            }
            _ => refuse("substring", arguments),
        },
        "join" => |_, arguments| match arguments {
            [Value::List(list)] => join(list, ""),
            [Value::List(list), Value::String(separator)] => join(list, separator),
            _ => refuse("join", arguments),
        },
        "strings.quote" => |_, arguments| match arguments {
            [Value::String(text)] => Ok(Value::text(quote(text))),
            _ => refuse("strings.quote", arguments),
        },
        "format" => |_, arguments| match arguments {
            [Value::String(text), Value::List(list)] => format::format(text, list),
            _ => refuse("format", arguments),
        },
        _ => return None,
    })
}

fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn out_of_range<'a>(index: i64) -> Result<Value<'a>> {
    Err(Error::new(format!("index out of range: {index}")))
}

fn char_at<'a>(text: &str, index: i64) -> Result<Value<'a>> {
    let Some(at) = usize::try_from(index).ok().filter(|_| index <= count(text)) else {
        return out_of_range(index);
    };
    let found = text.chars().nth(at).map(String::from);
    Ok(Value::text(found.unwrap_or_default()))
}

fn index_of<'a>(text: &str, part: &str, from: i64) -> Result<Value<'a>> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let Ok(from) = usize::try_from(from) else {
        return out_of_range(from);
    };
    let Some((start, _)) = text.char_indices().nth(from) else {
        return Ok(Value::Int(-1));
    };
    let rest = text.get(start..).unwrap_or("");
    let found = rest.find(part).and_then(|at| text.get(..start + at));
    Ok(Value::Int(found.map_or(-1, count)))
}

fn last_index_of<'a>(text: &str, part: &str, from: i64) -> Result<Value<'a>> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    if text.len() < part.len() && from + 1 == count(text) {
        return Ok(Value::Int(-1));
    }
    let Ok(from) = usize::try_from(from) else {
        return out_of_range(from);
    };
    if i64::try_from(from).is_ok_and(|from| from >= count(text)) {
        return Ok(Value::Int(-1));
    }
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let found = starts
        .iter()
        .enumerate()
        .take(from + 1)
        .rev()
        .find(|(_, at)| text.get(**at..).is_some_and(|rest| rest.starts_with(part)));
    let index = found.and_then(|(index, _)| i64::try_from(index).ok());
    Ok(Value::Int(index.unwrap_or(-1)))
}

fn list_position<'a>(list: &List<'a>, item: &Value<'a>, is_last: bool) -> Result<Value<'a>> {
    let same = |index: usize| {
        list.get(index)
            .and_then(Result::ok)
            .is_some_and(|found| matches!(found.equals(item), Ok(true)))
    };
    let mut indexes = 0..list.len();
    let found = if is_last {
        indexes.rfind(|index| same(*index))
    } else {
        indexes.find(|index| same(*index))
    };
    let index = found.and_then(|index| i64::try_from(index).ok());
    Ok(Value::Int(index.unwrap_or(-1)))
}

fn find_all<'a>(text: &str, pattern: &str, most: i64) -> Result<Value<'a>> {
    let pattern = patterns::for_search(pattern)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let found = pattern.find_iter(text).take(most);
    Ok(Value::list(
        found.map(|found| Value::text(found.as_str())).collect(),
    ))
}

fn split<'a>(text: &str, separator: &str, most: i64) -> Value<'a> {
    let most = match usize::try_from(most) {
        Ok(0) => return Value::list(Vec::new()),
        Ok(most) => most,
        Err(_) => usize::MAX,
    };
    if !separator.is_empty() {
        return Value::list(text.splitn(most, separator).map(Value::text).collect());
    }
    // An empty separator is between all characters, but not at the ends.
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if parts.len() + 1 == most {
            parts.push(Value::text(rest));
            break;
        }
        let (first, after) = rest.split_at(letter.len_utf8());
        parts.push(Value::text(first));
        rest = after;
    }
    Value::list(parts)
}

fn substring<'a>(text: &str, start: i64, end: i64) -> Result<Value<'a>> {
    let length = count(text);
    let is_open = end == length;
    if start > end && !(is_open && start > length) {
        return Err(Error::new(format!(
            "invalid substring range. start: {start}, end: {end}"
        )));
    }
    for index in [start, end] {
        if !(0..=length).contains(&index) {
            return out_of_range(index);
        }
    }
    let start = usize::try_from(start).unwrap_or(0);
    let taken = usize::try_from(end).unwrap_or(0) - start;
    let part: String = text.chars().skip(start).take(taken).collect();
    Ok(Value::text(part))
}

fn join<'a>(list: &List<'_>, separator: &str) -> Result<Value<'a>> {
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        match item? {
            Value::String(text) => joined.push_str(&text),
            other => {
                let shown = other.shown();
                return Err(Error::new(format!("join: invalid input: {shown}")));
            }
        }
    }
    Ok(Value::text(joined))
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        let escaped = match letter {
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{b}' => "\\v",
            '\\' => "\\\\",
            '"' => "\\\"",
            other => {
                let _ = write!(quoted, "{other}");
                continue;
            }
        };
        quoted.push_str(escaped);
    }
    quoted.push('"');
    quoted
}
