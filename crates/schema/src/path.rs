use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
};

/// Where in an object something is: `spec.disks[1].size`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn root() -> Self {
        Self::default()
    }

    pub(crate) fn child(&self, name: &str) -> Self {
        match self.0.as_str() {
            "" => Self(name.to_owned()),
            parent => Self(format!("{parent}.{name}")),
        }
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        Self(format!("{self}[{key}]"))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        let mut path = self.0.clone();
        // Writing to a string does not fail.
        let _ = write!(path, "[{index}]");
        Self(path)
    }

    /// Whether one of `places` is this place, or below it.
    pub(crate) fn holds_one_of(&self, places: &BTreeSet<String>) -> bool {
        if self.0.is_empty() {
            return !places.is_empty();
        }
        // What is below begins with this place and a separator; both separators sort close by.
        let below = |separator: char| {
            let beginning = format!("{}{separator}", self.0);
            let next = places.range(beginning.clone()..).next();
            next.is_some_and(|place| place.starts_with(&beginning))
        };
        places.contains(&self.0) || below('.') || below('[')
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
