use std::fmt::{self, Write as _};

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

    /// Whether `other` is this place, or below it.
    pub(crate) fn holds(&self, other: &str) -> bool {
        match other.strip_prefix(self.0.as_str()) {
            Some(rest) => self.0.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']),
            None => false,
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
