//! Description of a built-in kind.

/// Verbs of stored resources.
pub const STORED_VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Verbs of review APIs, which are not stored.
pub const CREATE_ONLY_VERBS: &[&str] = &["create"];

const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// A built-in kind with its discovery data and strategy options.
#[derive(Debug)]
pub struct Kind {
    /// Empty for core.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    /// OpenAPI component, such as `io.k8s.api.apps.v1.Deployment`.
    pub component: &'static str,
    pub namespaced: bool,
    pub short_names: &'static [&'static str],
    /// Such as `all`.
    pub categories: &'static [&'static str],
    /// Only `create` for review APIs.
    pub verbs: &'static [&'static str],
    pub subresources: &'static [Subresource],
    /// Whether there is a status subresource.
    pub has_status: bool,
    /// Fields whose change increments `metadata.generation`; empty if the kind has none.
    pub generation: &'static [&'static str],
    pub name_rule: NameRule,
}

/// Such as `deployments/scale`.
#[derive(Debug)]
pub struct Subresource {
    pub name: &'static str,
    /// Kind of request and response.
    pub kind: &'static str,
    pub group: &'static str,
    pub version: &'static str,
    pub verbs: &'static [&'static str],
}

/// Validation of object names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS-1123 subdomain, up to 253 bytes.
    Subdomain,
    /// DNS-1123 label, up to 63 bytes.
    Label,
    /// DNS-1035 label.
    Label1035,
    /// Path segment name.
    PathSegment,
}

impl Kind {
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// False for review APIs.
    pub fn is_stored(&self) -> bool {
        self.verbs.contains(&"get")
    }

    pub(crate) const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
        component: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            singular,
            component,
            namespaced: false,
            short_names: &[],
            categories: &[],
            verbs: STORED_VERBS,
            subresources: &[],
            has_status: false,
            generation: &[],
            name_rule: NameRule::Subdomain,
        }
    }

    pub(crate) const fn namespaced(mut self) -> Self {
        self.namespaced = true;
        self
    }

    pub(crate) const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    pub(crate) const fn category(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    pub(crate) const fn verbs(mut self, verbs: &'static [&'static str]) -> Self {
        self.verbs = verbs;
        self
    }

    /// Subresources other than `status` need their own entries.
    pub(crate) const fn subresources(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        let mut index = 0;
        while index < subresources.len() {
            if let b"status" = subresources[index].name.as_bytes() {
                self.has_status = true;
            }
            index += 1;
        }
        self
    }

    pub(crate) const fn generation(mut self, fields: &'static [&'static str]) -> Self {
        self.generation = fields;
        self
    }

    pub(crate) const fn name_rule(mut self, rule: NameRule) -> Self {
        self.name_rule = rule;
        self
    }
}

impl Subresource {
    pub(crate) const fn new(
        name: &'static str,
        (group, version, kind): (&'static str, &'static str, &'static str),
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            kind,
            group,
            version,
            verbs,
        }
    }

    /// Subresource of the same kind, such as the status.
    pub(crate) const fn part(
        name: &'static str,
        gvk: (&'static str, &'static str, &'static str),
    ) -> Self {
        Self::new(name, gvk, SUBRESOURCE_VERBS)
    }
}
