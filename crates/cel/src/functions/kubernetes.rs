//! Quantities, versions, addresses of the web, and named formats.

use std::{collections::BTreeMap, sync::Arc};

use quantity::Quantity;

use super::{Environment, Function, refuse, semver::Version, url::Url};
use crate::value::{Error, Key, Map, Result, Special, Value};

pub(super) fn implementation(name: &str) -> Option<Function> {
    of_quantities(name)
        .or_else(|| of_versions(name))
        .or_else(|| of_urls(name))
}

fn of_quantities(name: &str) -> Option<Function> {
    Some(match name {
        "quantity" => |_, arguments| {
            match arguments {
            [Value::String(text)] => text.parse::<Quantity>().map(amount).map_err(|_| {
                Error::new(if text.is_empty() { "unable to parse quantity's suffix".to_owned() } else { "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned() })
            }),
            _ => refuse("quantity", arguments),
        }
        },
        "isQuantity" => |_, arguments| match arguments {
            [Value::String(text)] => Ok(Value::Bool(text.parse::<Quantity>().is_ok())),
            _ => refuse("isQuantity", arguments),
        },
        "sign" => |_, arguments| match arguments {
            [Value::Special(Special::Quantity(amount))] => {
                Ok(Value::Int(amount.cmp(&Quantity::ZERO) as i64))
            }
            _ => refuse("sign", arguments),
        },
        "isInteger" => |_, arguments| match arguments {
            [Value::Special(Special::Quantity(amount))] => {
                Ok(Value::Bool(amount.whole().is_some()))
            }
            _ => refuse("isInteger", arguments),
        },
        "asInteger" => |_, arguments| match arguments {
            [Value::Special(Special::Quantity(amount))] => amount
                .whole()
                .map(Value::Int)
                .ok_or_else(|| Error::new("cannot convert value to integer")),
            _ => refuse("asInteger", arguments),
        },
        "asApproximateFloat" => |_, arguments| match arguments {
            [Value::Special(Special::Quantity(amount))] => Ok(Value::Double(amount.approximate())),
            _ => refuse("asApproximateFloat", arguments),
        },
        "add" => |_, arguments| match arguments {
            [Value::Special(Special::Quantity(one)), other] => match amount_of(other) {
                Some(other) => Ok(amount(*one + other)),
                None => refuse("add", arguments),
            },
            _ => refuse("add", arguments),
        },
        "sub" => |_, arguments| match arguments {
            [Value::Special(Special::Quantity(one)), other] => match amount_of(other) {
                Some(other) => Ok(amount(*one - other)),
                None => refuse("sub", arguments),
            },
            _ => refuse("sub", arguments),
        },
        // Versions have functions of these names too.
        "compareTo" => {
            |_, arguments| compared("compareTo", arguments).map(|order| Value::Int(order as i64))
        }
        "isLessThan" => {
            |_, arguments| compared("isLessThan", arguments).map(|order| Value::Bool(order.is_lt()))
        }
        "isGreaterThan" => |_, arguments| {
            compared("isGreaterThan", arguments).map(|order| Value::Bool(order.is_gt()))
        },
        _ => return None,
    })
}

fn amount<'a>(amount: Quantity) -> Value<'a> {
    Value::Special(Special::Quantity(amount))
}

fn amount_of(value: &Value<'_>) -> Option<Quantity> {
    match value {
        Value::Special(Special::Quantity(amount)) => Some(*amount),
        Value::Int(number) => Some(Quantity::from_bytes(*number)),
        _ => None,
    }
}

fn compared(function: &str, arguments: &[Value<'_>]) -> Result<std::cmp::Ordering> {
    match arguments {
        [
            Value::Special(Special::Quantity(one)),
            Value::Special(Special::Quantity(other)),
        ] => Ok(one.cmp(other)),
        [
            Value::Special(Special::Semver(one)),
            Value::Special(Special::Semver(other)),
        ] => Ok(one.cmp(other)),
        _ => Err(super::no_overload(function, arguments)),
    }
}

fn of_versions(name: &str) -> Option<Function> {
    Some(match name {
        "semver" => |_, arguments| match arguments {
            [Value::String(text)] => version(Version::parse(text)),
            [Value::String(text), Value::Bool(normalize)] => {
                version(Version::parse_perhaps_normalized(text, *normalize))
            }
            _ => refuse("semver", arguments),
        },
        "isSemver" => |_, arguments| match arguments {
            [Value::String(text)] => Ok(Value::Bool(Version::parse(text).is_ok())),
            [Value::String(text), Value::Bool(normalize)] => Ok(Value::Bool(
                Version::parse_perhaps_normalized(text, *normalize).is_ok(),
            )),
            _ => refuse("isSemver", arguments),
        },
        "major" => |_, arguments| part("major", arguments, |version| version.major),
        "minor" => |_, arguments| part("minor", arguments, |version| version.minor),
        "patch" => |_, arguments| part("patch", arguments, |version| version.patch),
        _ => return None,
    })
}

fn version<'a>(parsed: std::result::Result<Version, String>) -> Result<Value<'a>> {
    match parsed {
        Ok(version) => Ok(Value::Special(Special::Semver(Arc::new(version)))),
        Err(why) => Err(Error::new(why)),
    }
}

fn part<'a>(
    function: &str,
    arguments: &[Value<'_>],
    read: fn(&Version) -> u64,
) -> Result<Value<'a>> {
    match arguments {
        [Value::Special(Special::Semver(version))] => {
            Ok(Value::Int(i64::try_from(read(version)).unwrap_or(i64::MAX)))
        }
        _ => refuse(function, arguments),
    }
}

fn of_urls(name: &str) -> Option<Function> {
    Some(match name {
        "url" => |_, arguments| match arguments {
            [Value::String(text)] => match Url::parse_request(text) {
                Ok(url) => Ok(Value::Special(Special::Url(Arc::new(url)))),
                Err(why) => Err(Error::new(format!(
                    "URL parse error during conversion from string: {why}"
                ))),
            },
            _ => refuse("url", arguments),
        },
        "isURL" => |_, arguments| match arguments {
            [Value::String(text)] => Ok(Value::Bool(Url::parse_request(text).is_ok())),
            _ => refuse("isURL", arguments),
        },
        "getScheme" => |_, arguments| read("getScheme", arguments, |url| url.scheme.clone()),
        "getHost" => |_, arguments| read("getHost", arguments, |url| url.host.clone()),
        "getHostname" => |_, arguments| read("getHostname", arguments, Url::host_name),
        "getPort" => |_, arguments| read("getPort", arguments, Url::port),
        "getEscapedPath" => |_, arguments| read("getEscapedPath", arguments, Url::escaped_path),
        "getQuery" => |_, arguments| match arguments {
            [Value::Special(Special::Url(url))] => {
                let mut entries = BTreeMap::new();
                for (key, values) in url.query() {
                    let values = values.into_iter().map(Value::text).collect();
                    entries.insert(Key::String(key.into()), Value::list(values));
                }
                Ok(Value::Map(Map::Plain(Arc::new(entries))))
            }
            _ => refuse("getQuery", arguments),
        },
        "format.named" => |environment, arguments| match arguments {
            [Value::String(name)] => Ok(Value::optional(format(environment, name))),
            _ => refuse("format.named", arguments),
        },
        "validate" => |_, arguments| match arguments {
            [Value::Special(Special::Format(format)), Value::String(text)] => {
                let problems = (format.validate)(text);
                let problems = (!problems.is_empty())
                    .then(|| Value::list(problems.into_iter().map(Value::text).collect()));
                Ok(Value::optional(problems))
            }
            _ => refuse("validate", arguments),
        },
        _ => return None,
    })
}

/// The format with a name.
pub(crate) fn format<'a>(environment: &Environment, name: &str) -> Option<Value<'a>> {
    let found = environment
        .formats
        .iter()
        .find(|format| format.name == name);
    found.map(|format| Value::Special(Special::Format(format)))
}

fn read<'a>(
    function: &str,
    arguments: &[Value<'_>],
    read: fn(&Url) -> String,
) -> Result<Value<'a>> {
    match arguments {
        [Value::Special(Special::Url(url))] => Ok(Value::text(read(url))),
        _ => refuse(function, arguments),
    }
}
