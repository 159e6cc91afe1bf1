//! Arithmetic, comparison and membership.

use std::{cmp::Ordering, sync::Arc};

use super::{Environment, Function, time::Time};
use crate::value::{Error, Result, Value};

pub(super) fn implementation(name: &str) -> Option<Function> {
    Some(match name {
        "_+_" => |_, arguments| match arguments {
            [one, other] => add(one, other),
            _ => Err(Error::no_such_overload()),
        },
        "_-_" => |_, arguments| match arguments {
            [one, other] => subtract(one, other),
            _ => Err(Error::no_such_overload()),
        },
        "_*_" => |_, arguments| match arguments {
            [Value::Int(one), Value::Int(other)] => int(one.checked_mul(*other)),
            [Value::Uint(one), Value::Uint(other)] => uint(one.checked_mul(*other)),
            [Value::Double(one), Value::Double(other)] => Ok(Value::Double(one * other)),
            _ => Err(Error::no_such_overload()),
        },
        "_/_" => |_, arguments| match arguments {
            [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
                Err(Error::new("division by zero"))
            }
            [Value::Int(one), Value::Int(other)] => int(one.checked_div(*other)),
            [Value::Uint(one), Value::Uint(other)] => uint(one.checked_div(*other)),
            [Value::Double(one), Value::Double(other)] => Ok(Value::Double(one / other)),
            _ => Err(Error::no_such_overload()),
        },
        "_%_" => |_, arguments| match arguments {
            [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
                Err(Error::new("modulus by zero"))
            }
            [Value::Int(one), Value::Int(other)] => int(one.checked_rem(*other)),
            [Value::Uint(one), Value::Uint(other)] => uint(one.checked_rem(*other)),
            _ => Err(Error::no_such_overload()),
        },
        "-_" => |_, arguments| match arguments {
            [Value::Int(value)] => int(value.checked_neg()),
            [Value::Double(value)] => Ok(Value::Double(-value)),
            _ => Err(Error::no_such_overload()),
        },
        "!_" => |_, arguments| match arguments {
            [Value::Bool(value)] => Ok(Value::Bool(!value)),
            _ => Err(Error::no_such_overload()),
        },
        "_<_" => |_, arguments| ordered(arguments, Ordering::is_lt),
        "_<=_" => |_, arguments| ordered(arguments, Ordering::is_le),
        "_>_" => |_, arguments| ordered(arguments, Ordering::is_gt),
        "_>=_" => |_, arguments| ordered(arguments, Ordering::is_ge),
        "_==_" => |_, arguments| match arguments {
            [one, other] => one.equals(other).map(Value::Bool),
            _ => Err(Error::no_such_overload()),
        },
        // What cannot be compared differs.
        "_!=_" => |_, arguments| match arguments {
            [one, other] => Ok(Value::Bool(!matches!(one.equals(other), Ok(true)))),
            _ => Err(Error::no_such_overload()),
        },
        "@in" => contains,
        "size" => |_, arguments| match arguments {
            [value] => value.size().map_or_else(
                || Err(Error::new("no such overload: size")),
                |size| Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            ),
            _ => Err(Error::no_such_overload()),
        },
        "type" => |_, arguments| match arguments {
            [value] => Ok(value.type_value()),
            _ => Err(Error::no_such_overload()),
        },
        "dyn" => |_, arguments| {
            arguments
                .first()
                .cloned()
                .ok_or_else(Error::no_such_overload)
        },
        _ => return None,
    })
}

fn int<'a>(result: Option<i64>) -> Result<Value<'a>> {
    result
        .map(Value::Int)
        .ok_or_else(|| Error::new("integer overflow"))
}

fn uint<'a>(result: Option<u64>) -> Result<Value<'a>> {
    result
        .map(Value::Uint)
        .ok_or_else(|| Error::new("unsigned integer overflow"))
}

fn duration<'a>(result: Option<i64>) -> Result<Value<'a>> {
    result
        .map(Value::Duration)
        .ok_or_else(|| Error::new("duration overflow"))
}

fn shifted<'a>(time: Time, nanoseconds: i128) -> Result<Value<'a>> {
    Time::from_nanoseconds(time.nanoseconds() + nanoseconds)
        .map(Value::Timestamp)
        .ok_or_else(|| Error::new("timestamp overflow"))
}

fn add<'a>(one: &Value<'a>, other: &Value<'a>) -> Result<Value<'a>> {
    Ok(match (one, other) {
        (Value::Int(one), Value::Int(other)) => return int(one.checked_add(*other)),
        (Value::Uint(one), Value::Uint(other)) => return uint(one.checked_add(*other)),
        (Value::Double(one), Value::Double(other)) => Value::Double(one + other),
        (Value::String(one), Value::String(other)) => {
            let mut joined = String::with_capacity(one.len() + other.len());
            joined.push_str(one);
            joined.push_str(other);
            Value::text(joined)
        }
        (Value::Bytes(one), Value::Bytes(other)) => {
            Value::Bytes(Arc::from([&**one, &**other].concat()))
        }
        (Value::List(one), Value::List(other)) => Value::List(one.joined(other)?),
        (Value::Duration(one), Value::Duration(other)) => {
            return duration(one.checked_add(*other));
        }
        (Value::Duration(span), Value::Timestamp(time))
        | (Value::Timestamp(time), Value::Duration(span)) => {
            return shifted(*time, (*span).into());
        }
        _ => return Err(Error::no_such_overload()),
    })
}

fn subtract<'a>(one: &Value<'a>, other: &Value<'a>) -> Result<Value<'a>> {
    Ok(match (one, other) {
        (Value::Int(one), Value::Int(other)) => return int(one.checked_sub(*other)),
        (Value::Uint(one), Value::Uint(other)) => return uint(one.checked_sub(*other)),
        (Value::Double(one), Value::Double(other)) => Value::Double(one - other),
        (Value::Duration(one), Value::Duration(other)) => {
            return duration(one.checked_sub(*other));
        }
        (Value::Timestamp(time), Value::Duration(span)) => {
            return shifted(*time, -i128::from(*span));
        }
        (Value::Timestamp(one), Value::Timestamp(other)) => {
            let span = one.nanoseconds() - other.nanoseconds();
            return duration(i64::try_from(span).ok());
        }
        _ => return Err(Error::no_such_overload()),
    })
}

fn ordered<'a>(arguments: &[Value<'_>], is: fn(Ordering) -> bool) -> Result<Value<'a>> {
    let [one, other] = arguments else {
        return Err(Error::no_such_overload());
    };
    match one.compare(other)? {
        Some(order) => Ok(Value::Bool(is(order))),
        None => Err(Error::new("NaN values cannot be ordered")),
    }
}

fn contains<'a>(_: &Environment, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let found = match arguments {
        [value, Value::List(list)] => list.contains(value)?,
        [key, Value::Map(map)] => map.find(key)?.is_some(),
        _ => return Err(Error::no_such_overload()),
    };
    Ok(Value::Bool(found))
}
