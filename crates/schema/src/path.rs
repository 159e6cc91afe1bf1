//! Field paths: `spec.disks[1].size`.

use std::{collections::BTreeSet, fmt};

/// Linked path to the root, formatted only on demand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    Root,
    /// Below a formatted path.
    At(&'a str),
    Field(&'a Path<'a>, &'a str),
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub(crate) fn child(&'a self, name: &'a str) -> Self {
        Self::Field(self, name)
    }

    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    pub(crate) fn is_root(&self) -> bool {
        matches!(self, Self::Root | Self::At(""))
    }

    /// Path as structural errors and pruning print it: map keys after a dot.
    pub(crate) fn dotted(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::At(text) => (*text).to_owned(),
            Self::Field(parent, name) | Self::Key(parent, name) => {
                let mut path = parent.dotted();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                path
            }
            Self::Index(parent, index) => format!("{}[{index}]", parent.dotted()),
        }
    }

    /// Whether one of `places`, all dotted, is this path or a descendant.
    pub(crate) fn contains_any(&self, places: &BTreeSet<String>) -> bool {
        if self.is_root() || places.is_empty() {
            return !places.is_empty();
        }
        let here = self.dotted();
        // Descendants start with this path and a separator; both separators sort close by.
        let below = |separator: char| {
            let beginning = format!("{here}{separator}");
            let next = places.range(beginning.clone()..).next();
            next.is_some_and(|place| place.starts_with(&beginning))
        };
        places.contains(&here) || below('.') || below('[')
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::At(text) => f.write_str(text),
            Self::Field(parent, name) if parent.is_root() => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Key(parent, key) => write!(f, "{parent}[{key}]"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
