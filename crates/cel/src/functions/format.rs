//! `format` of strings: `'%s has %d'.format([name, count])`.

use std::fmt::Write as _;

use apimachinery::go;

use super::conversions;
use crate::{
    ast::Id,
    value::{Error, List, Map, Result, Value, go_exponent},
};

/// Digits after the point, unless the format says otherwise.
const PRECISION: usize = 6;

/// A clause: its letter and, in `%.3f`, its precision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clause {
    letter: char,
    precision: Option<usize>,
}

/// Why a format fails; `about` is the part of a literal that is wrong.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) about: Option<Id>,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(about: Option<Id>, message: impl Into<String>) -> Self {
        Self {
            about,
            message: message.into(),
        }
    }

    fn within(self, context: &str) -> Self {
        Self {
            message: format!("{context}: {}", self.message),
            ..self
        }
    }
}

pub(super) fn format<'a>(text: &str, arguments: &List<'_>) -> Result<Value<'a>> {
    let mut print = |index: usize, clause: Clause| match arguments.get(index) {
        Some(value) => value
            .map_err(|error| error.to_string())
            .and_then(|value| clause.print(&value))
            .map_err(|message| Problem::new(None, message)),
        None => Err(Problem::new(None, "")),
    };
    match run(text, arguments.len(), &mut print) {
        Ok((formatted, _)) => Ok(Value::text(formatted)),
        Err(problem) => Err(Error::new(problem.message)),
    }
}

/// Formats a text with the result of `print` for each clause. Returns the number of clauses too.
pub(crate) fn run(
    text: &str,
    size: usize,
    print: &mut dyn FnMut(usize, Clause) -> std::result::Result<String, Problem>,
) -> std::result::Result<(String, usize), Problem> {
    let mut formatted = String::with_capacity(text.len());
    let mut used = 0;
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (plain, clause) = rest.split_at(at);
        formatted.push_str(plain);
        let after = clause.get(1..).unwrap_or("");
        if let Some(after) = after.strip_prefix('%') {
            formatted.push('%');
            rest = after;
            continue;
        }
        if after.is_empty() {
            return Err(Problem::new(None, "unexpected end of string"));
        }
        if used >= size {
            return Err(Problem::new(None, format!("index {used} out of range")));
        }
        let (clause, after) = clause_of(after)
            .map_err(|problem| problem.within("could not parse formatting clause"))?;
        let printed = print(used, clause);
        formatted.push_str(&printed.map_err(|problem| problem.within("error during formatting"))?);
        used += 1;
        rest = after;
    }
    formatted.push_str(rest);
    Ok((formatted, used))
}

fn clause_of(text: &str) -> std::result::Result<(Clause, &str), Problem> {
    let mut rest = text;
    let mut precision = None;
    if let Some(after) = text.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = after.split_at(digits);
        let failed = |why: &str| Problem::new(None, why).within("error while parsing precision");
        if after.is_empty() {
            return Err(failed("could not find end of precision specifier"));
        }
        precision = Some(number.parse().map_err(|_| {
            let number = go::quote(number);
            failed(&format!(
                "error while converting precision to integer: strconv.Atoi: parsing {number}: invalid syntax"
            ))
        })?);
        rest = after;
    }
    let letter = rest.chars().next().unwrap_or(' ');
    if !"sdfebxXo".contains(letter) {
        let message = format!("unrecognized formatting clause \"{letter}\"");
        return Err(Problem::new(None, message));
    }
    let after = rest.get(letter.len_utf8()..).unwrap_or("");
    Ok((Clause { letter, precision }, after))
}

impl Clause {
    /// Names of the types that it formats; empty for all.
    pub(crate) fn accepts(self) -> &'static [&'static str] {
        match self.letter {
            'd' | 'o' => &["int", "uint"],
            'f' | 'e' => &["double", "string"],
            'b' => &["int", "uint", "bool"],
            'x' | 'X' => &["int", "uint", "string", "bytes"],
            _ => &[
                "list",
                "map",
                "int",
                "uint",
                "double",
                "bool",
                "string",
                "google.protobuf.Timestamp",
                "bytes",
                "google.protobuf.Duration",
                "type",
                "null_type",
            ],
        }
    }

    pub(crate) fn is_string(self) -> bool {
        self.letter == 's'
    }

    /// The message for a value of a type that it does not format.
    pub(crate) fn refusal(self, type_: &str) -> String {
        let rule = match self.letter {
            'd' => "decimal clause can only be used on integers",
            'f' => "fixed-point clause can only be used on doubles",
            'e' => "scientific clause can only be used on doubles",
            'b' => "only integers and bools can be formatted as binary",
            'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
            'o' => "octal clause can only be used on integers",
            _ => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
        };
        format!("{rule}, was given {type_}")
    }

    fn print(self, value: &Value<'_>) -> std::result::Result<String, String> {
        let refused = || Err(self.refusal(value.type_name()));
        Ok(match (self.letter, value) {
            ('s', _) => return string(value, self),
            ('d', Value::Int(number)) => number.to_string(),
            ('d', Value::Uint(number)) => number.to_string(),
            ('f' | 'e', _) => {
                let number = match value {
                    Value::Double(number) => *number,
                    Value::String(text) => match &**text {
                        "NaN" => f64::NAN,
                        "Infinity" => f64::INFINITY,
                        "-Infinity" => f64::NEG_INFINITY,
                        _ => return refused(),
                    },
                    _ => return refused(),
                };
                let precision = self.precision.unwrap_or(PRECISION);
                match self.letter {
                    'f' => fixed(number, precision),
                    _ => scientific(number, precision),
                }
            }
            ('b', Value::Bool(value)) => u8::from(*value).to_string(),
            ('b' | 'x' | 'X' | 'o', Value::Int(number)) => {
                let sign = if *number < 0 { "-" } else { "" };
                format!("{sign}{}", self.digits(number.unsigned_abs()))
            }
            ('b' | 'x' | 'X' | 'o', Value::Uint(number)) => self.digits(*number),
            ('x' | 'X', Value::String(text)) => self.hexadecimal(text.as_bytes()),
            ('x' | 'X', Value::Bytes(bytes)) => self.hexadecimal(bytes),
            _ => return refused(),
        })
    }

    fn digits(self, number: u64) -> String {
        match self.letter {
            'b' => format!("{number:b}"),
            'o' => format!("{number:o}"),
            'X' => format!("{number:X}"),
            _ => format!("{number:x}"),
        }
    }

    fn hexadecimal(self, bytes: &[u8]) -> String {
        let mut printed = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            let _ = match self.letter {
                'X' => write!(printed, "{byte:02X}"),
                _ => write!(printed, "{byte:02x}"),
            };
        }
        printed
    }
}

/// Fixed point in the form of American English, with commas between thousands.
fn fixed(number: f64, precision: usize) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 {
            "\u{221e}"
        } else {
            "-\u{221e}"
        }
        .to_owned();
    }
    let plain = format!("{number:.precision$}");
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", plain.as_str()),
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (digits, String::new()),
    };
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// Scientific notation in the form of American English: `2.718282 × 10⁰⁰`.
fn scientific(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return fixed(number, precision);
    }
    let plain = format!("{number:.precision$e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent = go_exponent(exponent.parse().unwrap_or(0));
    let raised: String = exponent
        .trim_start_matches('e')
        .chars()
        .filter_map(|letter| match letter {
            '-' => Some('\u{207b}'),
            '0' => Some('\u{2070}'),
            '1' => Some('\u{b9}'),
            '2' => Some('\u{b2}'),
            '3' => Some('\u{b3}'),
            digit @ '4'..='9' => char::from_u32(0x2070 + u32::from(digit) - u32::from('0')),
            _ => None,
        })
        .collect();
    format!("{digits}\u{202f}\u{d7}\u{202f}10{raised}")
}

fn string(value: &Value<'_>, clause: Clause) -> std::result::Result<String, String> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::List(list) => list_literal(list),
        Value::Map(map) => map_literal(map),
        Value::Optional(_) | Value::Special(_) => Err(clause.refusal(value.type_name())),
        _ => match conversions::string(value) {
            Ok(Value::String(text)) => Ok(text.to_string()),
            Ok(_) => Err(clause.refusal(value.type_name())),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// A value as it is written in an expression.
fn literal(value: &Value<'_>) -> std::result::Result<String, String> {
    let text = || match conversions::string(value) {
        Ok(Value::String(text)) => Ok(text.to_string()),
        Ok(_) => Err(String::new()),
        Err(error) => Err(error.to_string()),
    };
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::List(list) => list_literal(list)?,
        Value::Map(map) => map_literal(map)?,
        Value::String(value) => go::quote(value),
        Value::Bytes(_) => format!("b{}", go::quote(&text()?)),
        Value::Timestamp(_) => format!("timestamp({})", go::quote(&text()?)),
        Value::Duration(_) => format!("duration({})", go::quote(&text()?)),
        Value::Double(number) if !number.is_finite() => {
            go::quote(match (number.is_nan(), *number > 0.0) {
                (true, _) => "NaN",
                (false, true) => "+Inf",
                (false, false) => "-Inf",
            })
        }
        Value::Double(number) => format!("{number:.PRECISION$}"),
        Value::Optional(_) | Value::Special(_) => {
            return Err(format!("no formatting function for {}", value.type_name()));
        }
        _ => text()?,
    })
}

fn list_literal(list: &List<'_>) -> std::result::Result<String, String> {
    let mut items = Vec::with_capacity(list.len());
    for item in list.iter() {
        items.push(literal(&item.map_err(|error| error.to_string())?)?);
    }
    Ok(format!("[{}]", items.join(", ")))
}

fn map_literal(map: &Map<'_>) -> std::result::Result<String, String> {
    let mut entries = Vec::with_capacity(map.len());
    for key in map.keys() {
        let value = map.find(&key).map_err(|error| error.to_string())?;
        if let Some(value) = value {
            entries.push((literal(&key)?, literal(&value)?));
        }
    }
    entries.sort();
    let entries: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    Ok(format!("{{{}}}", entries.join(", ")))
}
