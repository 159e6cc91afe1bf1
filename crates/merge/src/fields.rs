//! Field sets: the fields of an object that one manager owns.
//!
//! A set is a tree. A field may be owned without its parts (`f:labels: {}`), with parts (`f:labels:
//! {".": {}, "f:a": {}}`), or only through parts (`f:spec: {"f:replicas": {}}`). Every branch of
//! the tree has an owned field.

mod element;
mod wire;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub use element::{Path, PathElement};
pub use wire::InvalidFields;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<PathElement, Node>,
}

/// Ownership of one value: itself, parts of it, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) member: bool,
    pub(crate) children: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    pub fn from_paths<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    /// Adds a field. The whole object, which has an empty path, is never owned.
    pub fn insert(&mut self, path: &Path) {
        let Some((last, parents)) = path.0.split_last() else {
            return;
        };
        let mut set = self;
        for element in parents {
            set = &mut set.nodes.entry(element.clone()).or_default().children;
        }
        set.nodes.entry(last.clone()).or_default().member = true;
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether this field itself is owned, not only parts of it.
    pub fn contains(&self, path: &Path) -> bool {
        let Some((last, parents)) = path.0.split_last() else {
            return false;
        };
        let mut set = self;
        for element in parents {
            match set.nodes.get(element) {
                Some(node) => set = &node.children,
                None => return false,
            }
        }
        set.nodes.get(last).is_some_and(|node| node.member)
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.extend(other);
        union
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        for (element, node) in &other.nodes {
            match self.nodes.entry(element.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(node.clone());
                }
                Entry::Occupied(mut entry) => {
                    let entry = entry.get_mut();
                    entry.member |= node.member;
                    entry.children.extend(&node.children);
                }
            }
        }
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.filter_map(|element, node| {
            let other = other.nodes.get(element)?;
            Some(Node {
                member: node.member && other.member,
                children: node.children.intersection(&other.children),
            })
        })
    }

    /// Fields that are not in the other set. Parts of a field in it are kept.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.filter_map(|element, node| match other.nodes.get(element) {
            None => Some(node.clone()),
            Some(other) => Some(Node {
                member: node.member && !other.member,
                children: node.children.difference(&other.children),
            }),
        })
    }

    /// Fields that are neither in the other set nor parts of a field in it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.filter_map(|element, node| match other.nodes.get(element) {
            None => Some(node.clone()),
            Some(other) if other.member => None,
            Some(other) => Some(Node {
                member: node.member,
                children: node.children.recursive_difference(&other.children),
            }),
        })
    }

    /// All fields; those of one map or list come before their parts, as in the server's messages.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Path::default(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Path, paths: &mut Vec<Path>) {
        for element in self
            .nodes
            .iter()
            .filter(|(_, node)| node.member)
            .map(|(element, _)| element)
        {
            let mut path = prefix.clone();
            path.0.push(element.clone());
            paths.push(path);
        }
        for (element, node) in &self.nodes {
            prefix.0.push(element.clone());
            node.children.collect(prefix, paths);
            prefix.0.pop();
        }
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&PathElement, &Node)> {
        self.nodes.iter()
    }

    pub(crate) fn node(&self, element: &PathElement) -> Option<&Node> {
        self.nodes.get(element)
    }

    /// Adds a part, unless nothing of it is owned.
    pub(crate) fn attach(&mut self, element: PathElement, node: Node) {
        if node.is_empty() {
            return;
        }
        match self.nodes.entry(element) {
            Entry::Vacant(entry) => {
                entry.insert(node);
            }
            Entry::Occupied(mut entry) => {
                let entry = entry.get_mut();
                entry.member |= node.member;
                entry.children.extend(&node.children);
            }
        }
    }

    fn filter_map(&self, keep: impl Fn(&PathElement, &Node) -> Option<Node>) -> Self {
        let nodes = self
            .nodes
            .iter()
            .filter_map(|(element, node)| {
                let kept = keep(element, node).filter(|node| !node.is_empty())?;
                Some((element.clone(), kept))
            })
            .collect();
        Self { nodes }
    }
}

#[cfg(test)]
mod tests;
