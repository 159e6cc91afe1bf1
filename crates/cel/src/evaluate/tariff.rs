//! Cost of calls.

use crate::value::{List, Map, Result, Value};

const PER_CHARACTER: f64 = 0.1;
const PER_PATTERN_CHARACTER: f64 = 0.25;

/// How the cost of a call is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tariff {
    Nominal,
    /// By the characters of the first argument.
    Characters(f64),
    /// By all that is in the first argument.
    Traversal,
    /// By the characters of the result.
    Result,
    /// By the shorter of two arguments.
    Shorter,
    /// By both arguments.
    Sum,
    /// By the number of items of the second argument.
    Search,
    /// By the product of text and pattern.
    Pattern,
    /// By the product of text and part.
    Part,
    /// A network, and the other argument if it is a string.
    Network {
        factor: f64,
        is_text: bool,
    },
    Format,
    /// By the items of the resulting list.
    NewList,
    /// By the items of the first argument, in so many levels.
    Flatten,
    /// By comparing the items of an argument with each other.
    SelfCompare(usize),
    /// By the product of two lists.
    Product(f64),
}

impl Tariff {
    pub(crate) fn of(function: &str, overloads: &[&str]) -> Self {
        // Which of several overloads is called is not known.
        let overload = match overloads {
            [one] => *one,
            _ => "",
        };
        match overload {
            "list_slice" | "lists_range" | "list_reverse" => return Self::NewList,
            "list_flatten" | "list_flatten_int" => return Self::Flatten,
            "list_distinct" => return Self::SelfCompare(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => return Self::Product(1.0),
            "list_sets_equivalent_list" => return Self::Product(2.0),
            _ if overload.ends_with("_sortByAssociatedKeys") => return Self::SelfCompare(1),
            _ if overload.starts_with("list_") && overload.ends_with("_sort") => {
                return Self::SelfCompare(0);
            }
            _ => {}
        }
        match function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Self::Traversal,
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP"
            | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                Self::Characters(PER_CHARACTER)
            }
            "ip" if overload != "cidr_ip" => Self::Characters(PER_CHARACTER),
            "replace" | "split" | "ip.isCanonical" => Self::Characters(2.0 * PER_CHARACTER),
            "join" => Self::Result,
            "find" | "findAll" => Self::Pattern,
            "containsIP" | "containsCIDR" => Self::Network {
                factor: if function == "containsIP" { 2.0 } else { 3.0 },
                is_text: overload.ends_with("_string"),
            },
            "validate" => Self::Format,
            "_==_" | "_!=_" => Self::Shorter,
            _ => match overload {
                "starts_with_string" | "ends_with_string" | "string_to_bytes"
                | "bytes_to_string" | "strings_quote" | "string_format" => {
                    Self::Characters(PER_CHARACTER)
                }
                "in_list" => Self::Search,
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes" => Self::Shorter,
                "add_string" | "add_bytes" => Self::Sum,
                "matches_string" => Self::Pattern,
                "contains_string" => Self::Part,
                _ => Self::Nominal,
            },
        }
    }

    /// What is known before the call.
    pub(crate) fn before(self, arguments: &[Value<'_>]) -> u64 {
        let size = |index: usize| arguments.get(index).map_or(1, size);
        match self {
            Self::Nominal => 1,
            Self::Characters(factor) => scaled(size(0), factor),
            Self::Traversal => arguments.first().map_or(1, traversal),
            Self::Result | Self::NewList => 0,
            Self::Shorter => match arguments {
                [Value::Special(_), _] => 1,
                _ => scaled(size(0).min(size(1)), PER_CHARACTER),
            },
            Self::Sum => scaled(size(0) + size(1), PER_CHARACTER),
            Self::Search => size(1),
            Self::Pattern => {
                let text = scaled(size(0) + 1, PER_CHARACTER);
                text.saturating_mul(scaled(size(1), PER_PATTERN_CHARACTER))
            }
            Self::Part => {
                let text = scaled(size(0), PER_CHARACTER);
                text.saturating_mul(scaled(size(1), PER_CHARACTER))
            }
            Self::Network { factor, is_text } => {
                let text = if is_text {
                    scaled(size(1), PER_CHARACTER)
                } else {
                    0
                };
                scaled(size(0), factor * PER_CHARACTER) + text + u64::from(factor > 2.0)
            }
            Self::Format => {
                let pattern = match arguments.first() {
                    Some(Value::Special(crate::value::Special::Format(format))) => {
                        format.pattern_length
                    }
                    _ => 1,
                };
                let text = scaled(size(1) + 1, PER_CHARACTER);
                text.saturating_mul(scaled(pattern, PER_PATTERN_CHARACTER))
            }
            Self::Flatten => {
                let depth = match arguments.get(1) {
                    Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                    _ => 1,
                };
                size(0).saturating_mul(depth).saturating_add(11)
            }
            Self::SelfCompare(index) => {
                let count = size(index);
                let is_text = match arguments.get(index) {
                    Some(Value::List(list)) => {
                        matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))))
                    }
                    _ => false,
                };
                let factor = if is_text { 2.0 + PER_CHARACTER } else { 2.0 };
                scaled(count.saturating_mul(count), factor).saturating_add(11)
            }
            Self::Product(factor) => {
                scaled(size(0).saturating_mul(size(1)), factor).saturating_add(1)
            }
        }
    }

    /// What the result adds.
    pub(crate) fn after(self, result: &Result<Value<'_>>) -> u64 {
        let Ok(result) = result else { return 0 };
        match self {
            Self::Result => scaled(size(result), 2.0 * PER_CHARACTER),
            Self::NewList => size(result).saturating_add(11),
            _ => 0,
        }
    }
}

fn size(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(inner)) => size(inner),
        other => other.size().map_or(1, |size| size as u64),
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as the server computes it; a conversion keeps within the range"
)]
fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as the server computes it"
)]
fn traversal(value: &Value<'_>) -> u64 {
    let of_bytes = |length: usize| (length as f64 * PER_CHARACTER) as u64;
    match value {
        Value::String(text) => of_bytes(text.len()),
        Value::Bytes(bytes) => of_bytes(bytes.len()),
        Value::List(list) => of_list(list),
        Value::Map(map) => of_map(map),
        _ => 1,
    }
}

fn of_list(list: &List<'_>) -> u64 {
    list.iter()
        .map(|item| item.as_ref().map_or(1, traversal))
        .fold(0, u64::saturating_add)
}

fn of_map(map: &Map<'_>) -> u64 {
    map.keys()
        .iter()
        .map(|key| {
            let value = map.find(key).ok().flatten();
            traversal(key).saturating_add(value.as_ref().map_or(1, traversal))
        })
        .fold(0, u64::saturating_add)
}
