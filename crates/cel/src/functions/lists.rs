//! Lists and sets.

use std::cmp::Ordering;

use super::{Function, refuse};
use crate::value::{Error, List, Result, Value};

pub(super) fn implementation(name: &str) -> Option<Function> {
    Some(match name {
        "isSorted" => |_, arguments| match arguments {
            [Value::List(list)] => {
                let values = list.values()?;
                for (one, other) in values.iter().zip(values.iter().skip(1)) {
                    if one.compare(other)? == Some(Ordering::Greater) {
                        return Ok(Value::Bool(false));
                    }
                }
                Ok(Value::Bool(true))
            }
            _ => refuse("isSorted", arguments),
        },
        "sum" => |environment, arguments| match arguments {
            [Value::List(list)] => {
                let add = super::implementation("_+_").ok_or_else(Error::no_such_overload)?;
                let values = list.values()?;
                let mut values = values.into_iter();
                let first = values.next().unwrap_or(Value::Int(0));
                values.try_fold(first, |sum, value| add(environment, &[sum, value]))
            }
            _ => refuse("sum", arguments),
        },
        "min" => |_, arguments| extreme("min", arguments, Ordering::Greater),
        "max" => |_, arguments| extreme("max", arguments, Ordering::Less),
        "sort" => |_, arguments| match arguments {
            [Value::List(list)] => sorted(list, list),
            _ => refuse("sort", arguments),
        },
        "@sortByAssociatedKeys" => |_, arguments| match arguments {
            [Value::List(list), Value::List(keys)] => sorted(list, keys),
            _ => refuse("@sortByAssociatedKeys", arguments),
        },
        "slice" => |_, arguments| match arguments {
            [Value::List(list), Value::Int(start), Value::Int(end)] => slice(list, *start, *end),
            _ => refuse("slice", arguments),
        },
        "flatten" => |_, arguments| match arguments {
            [Value::List(list)] => flattened(list, 1).map(Value::list),
            [Value::List(_), Value::Int(depth)] if *depth < 0 => {
                Err(Error::new("level must be non-negative"))
            }
            [Value::List(list), Value::Int(depth)] => flattened(list, *depth).map(Value::list),
            _ => refuse("flatten", arguments),
        },
        "lists.range" => |_, arguments| match arguments {
            [Value::Int(end)] => Ok(Value::list((0..*end).map(Value::Int).collect())),
            _ => refuse("lists.range", arguments),
        },
        "reverse" => |_, arguments| match arguments {
            [Value::List(list)] => {
                let mut values = list.values()?;
                values.reverse();
                Ok(Value::list(values))
            }
            _ => refuse("reverse", arguments),
        },
        "distinct" => |_, arguments| match arguments {
            [Value::List(list)] => {
                let mut distinct: Vec<Value<'_>> = Vec::new();
                for value in list.iter() {
                    let value = value?;
                    let is_same = |known: &Value<'_>| matches!(value.equals(known), Ok(true));
                    if !distinct.iter().any(is_same) {
                        distinct.push(value);
                    }
                }
                Ok(Value::list(distinct))
            }
            _ => refuse("distinct", arguments),
        },
        "sets.contains" => |_, arguments| match arguments {
            [Value::List(list), Value::List(part)] => contains_all(list, part).map(Value::Bool),
            _ => refuse("sets.contains", arguments),
        },
        "sets.equivalent" => |_, arguments| match arguments {
            [Value::List(one), Value::List(other)] => Ok(Value::Bool(
                contains_all(one, other)? && contains_all(other, one)?,
            )),
            _ => refuse("sets.equivalent", arguments),
        },
        "sets.intersects" => |_, arguments| match arguments {
            [Value::List(one), Value::List(other)] => {
                for item in one.iter() {
                    if matches!(other.contains(&item?), Ok(true)) {
                        return Ok(Value::Bool(true));
                    }
                }
                Ok(Value::Bool(false))
            }
            _ => refuse("sets.intersects", arguments),
        },
        _ => return None,
    })
}

fn extreme<'a>(function: &str, arguments: &[Value<'a>], worse: Ordering) -> Result<Value<'a>> {
    let [Value::List(list)] = arguments else {
        return refuse(function, arguments);
    };
    let mut best: Option<Value<'a>> = None;
    for value in list.iter() {
        let value = value?;
        best = Some(match best {
            Some(best) if best.compare(&value)? != Some(worse) => best,
            _ => value,
        });
    }
    best.ok_or_else(|| Error::new(format!("{function} called on empty list")))
}

/// The items of a list in the order of their keys.
fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Result<Value<'a>> {
    if list.len() != keys.len() {
        return Err(Error::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let (values, keys) = (list.values()?, keys.values()?);
    let Some(first) = keys.first() else {
        return Ok(Value::List(list.clone()));
    };
    if first.compare(first).is_err() {
        return Err(Error::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Error::new("list elements must have the same type"));
    }
    let mut items: Vec<_> = keys.into_iter().zip(values).collect();
    items.sort_by(|(one, _), (other, _)| match one.compare(other) {
        Ok(Some(order)) => order,
        _ => Ordering::Equal,
    });
    Ok(Value::list(
        items.into_iter().map(|(_, value)| value).collect(),
    ))
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64) -> Result<Value<'a>> {
    let failed = |why: &str| Err(Error::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return failed("negative indexes not supported");
    };
    if from > to {
        return failed("start index must be less than or equal to end index");
    }
    if list.len() < to {
        return failed(&format!("list is length {}", list.len()));
    }
    let items = (from..to).filter_map(|index| list.get(index));
    items.collect::<Result<_>>().map(Value::list)
}

fn flattened<'a>(list: &List<'a>, depth: i64) -> Result<Vec<Value<'a>>> {
    let mut items = Vec::new();
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => items.extend(flattened(&inner, depth - 1)?),
            item => items.push(item),
        }
    }
    Ok(items)
}

fn contains_all(list: &List<'_>, part: &List<'_>) -> Result<bool> {
    for item in part.iter() {
        if !list.contains(&item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}
