//! Table printers for `kubectl get`.
//!
//! All columns are filled; those with a priority above zero are shown by `-o wide` only.

mod cluster;
mod core;
mod pod;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    Kind, selector,
    value::{at, list, map, text},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub type_: &'static str,
    /// `name` for the name column.
    pub format: &'static str,
    pub description: &'static str,
    /// Zero: always shown.
    pub priority: i32,
}

impl Column {
    const fn of(name: &'static str, type_: &'static str, description: &'static str) -> Self {
        Self {
            name,
            type_,
            format: "",
            description,
            priority: 0,
        }
    }

    const fn text(name: &'static str, description: &'static str) -> Self {
        Self::of(name, "string", description)
    }

    const fn number(name: &'static str, description: &'static str) -> Self {
        Self::of(name, "integer", description)
    }

    const fn truth(name: &'static str, description: &'static str) -> Self {
        Self::of(name, "boolean", description)
    }

    const fn name_format(mut self) -> Self {
        self.format = "name";
        self
    }

    const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

const NAME: Column = Column::text("Name", "The name of the object").name_format();
const AGE: Column = Column::text("Age", "The time since the object was created");
const CREATED: Column = Column::of(
    "Created At",
    "date",
    "The time at which the object was created",
);
const CONTAINERS: Column = Column::text("Containers", "The names of the containers").wide();
const IMAGES: Column = Column::text("Images", "The images of the containers").wide();
const SELECTOR: Column = Column::text("Selector", "The labels that select the pods").wide();

pub fn columns(kind: &Kind) -> &'static [Column] {
    core::columns(kind)
        .or_else(|| storage::columns(kind))
        .or_else(|| workloads::columns(kind))
        .or_else(|| cluster::columns(kind))
        .unwrap_or(&[NAME, CREATED])
}

/// One cell per column of the kind.
pub fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let row = Row { object, now };
    core::cells(kind, row)
        .or_else(|| storage::cells(kind, row))
        .or_else(|| workloads::cells(kind, row))
        .or_else(|| cluster::cells(kind, row))
        .unwrap_or_else(|| vec![row.name(), row.created()])
}

/// Age as kubectl shows it, such as `3m20s`; `<unknown>` without a time.
pub fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map_or_else(
        || "<unknown>".to_owned(),
        |then| duration(now.as_second() - then.as_second()),
    )
}

/// At most two units; only one once the smaller no longer matters.
fn duration(seconds: i64) -> String {
    let two = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => two(days, 'd', hours % 24, 'h'),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if days < 365 * 8 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// Object to print, and the current time.
#[derive(Clone, Copy)]
struct Row<'a> {
    object: &'a Value,
    now: Timestamp,
}

impl<'a> Row<'a> {
    fn text(self, path: &str) -> &'a str {
        text(self.object, path)
    }

    fn name(self) -> Value {
        at(self.object, "metadata.name").clone()
    }

    fn created(self) -> Value {
        at(self.object, "metadata.creationTimestamp").clone()
    }

    fn age(self) -> Value {
        self.since("metadata.creationTimestamp").into()
    }

    fn since(self, path: &str) -> String {
        age(self.time(path), self.now)
    }

    fn time(self, path: &str) -> Option<Timestamp> {
        at(self.object, path).as_str()?.parse().ok()
    }

    fn is_deleted(self) -> bool {
        crate::value::has(self.object, "metadata.deletionTimestamp")
    }

    fn number(self, path: &str) -> Value {
        crate::value::int(self.object, path).into()
    }

    fn truth(self, path: &str) -> Value {
        crate::value::flag(self.object, path).into()
    }

    /// String, or `none` if empty.
    fn or(self, path: &str, none: &str) -> Value {
        match at(self.object, path) {
            Value::String(text) if !text.is_empty() => text.as_str().into(),
            Value::Number(number) => number.to_string().into(),
            _ => none.into(),
        }
    }

    fn count(self, path: &str) -> Value {
        (list(self.object, path).len() + map(self.object, path).len()).into()
    }

    fn containers(self, path: &str) -> [Value; 2] {
        let joined = |field: &str| {
            let containers = list(self.object, path).iter();
            let parts: Vec<&str> = containers.map(|container| text(container, field)).collect();
            Value::from(parts.join(","))
        };
        [joined("name"), joined("image")]
    }

    fn selector(self, path: &str) -> Value {
        none_if_empty(selector::text(at(self.object, path)))
    }

    /// Status of a condition, empty if absent.
    fn condition(self, type_: &str) -> &'a str {
        let conditions = list(self.object, "status.conditions").iter();
        let mut of_type = conditions.filter(|condition| text(condition, "type") == type_);
        of_type
            .next()
            .map_or("", |condition| text(condition, "status"))
    }
}

fn none_if_empty(text: String) -> Value {
    match text.as_str() {
        "" => "<none>".into(),
        _ => text.into(),
    }
}

/// First three items and the number of further ones.
fn first_three(items: &[String], none: &str) -> String {
    let shown: Vec<&str> = items.iter().take(3).map(String::as_str).collect();
    match items.len() {
        0 => none.to_owned(),
        1..=3 => shown.join(","),
        count => format!("{} + {} more...", shown.join(","), count - 3),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::duration;

    #[rstest]
    #[case(-5, "<invalid>")]
    #[case(-1, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(200, "3m20s")]
    #[case(600, "10m")]
    #[case(3 * 3600, "3h")]
    #[case(3 * 3600 + 60, "3h1m")]
    #[case(47 * 3600, "47h")]
    #[case(49 * 3600, "2d1h")]
    #[case(9 * 86400, "9d")]
    #[case(800 * 86400, "2y70d")]
    #[case(4000 * 86400, "10y")]
    fn ages_lose_the_smaller_unit_with_time(#[case] seconds: i64, #[case] shown: &str) {
        assert_eq!(duration(seconds), shown);
    }
}
