//! Identity of objects.

use std::{fmt, sync::Arc};

/// Identity of an object: group, kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Empty for the core group.
    pub group: Arc<str>,
    pub kind: Arc<str>,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Id {
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub fn is(&self, group: &str, kind: &str) -> bool {
        &*self.group == group && &*self.kind == kind
    }

    /// None for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        Some(&*self.namespace).filter(|namespace| !namespace.is_empty())
    }

    /// Whether null is a meaningful value in objects of this kind.
    pub fn may_contain_null(&self) -> bool {
        self.is("security.openshift.io", "SecurityContextConstraints")
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = self.namespace() {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}
