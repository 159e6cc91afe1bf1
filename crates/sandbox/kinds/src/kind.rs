//! What a built-in kind is, as data.

/// The verbs of a resource that is stored.
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

/// The verbs of a request that is answered and not stored.
pub const CREATE_ONLY_VERBS: &[&str] = &["create"];

const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// A built-in kind, as discovery shows it, and the rules that need no code.
#[derive(Debug)]
pub struct Kind {
    /// The API group; empty for core.
    pub group: &'static str,
    /// The version in the group.
    pub version: &'static str,
    pub kind: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// The name of one.
    pub singular: &'static str,
    /// Its OpenAPI component, such as `io.k8s.api.apps.v1.Deployment`.
    pub component: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// The names that kubectl takes as well.
    pub short_names: &'static [&'static str],
    /// The groups of resources that it belongs to, such as `all`.
    pub categories: &'static [&'static str],
    /// What may be done with it. Only `create`: requests are answered and not stored.
    pub verbs: &'static [&'static str],
    /// What is below its objects.
    pub subresources: &'static [Subresource],
    /// Whether the status is written through a subresource of its own.
    pub has_status: bool,
    /// The fields at whose change `metadata.generation` grows; empty where there is no generation.
    pub generation: &'static [&'static str],
    /// What its objects may be called.
    pub name_rule: NameRule,
}

/// A resource below another, such as `deployments/scale`.
#[derive(Debug)]
pub struct Subresource {
    /// The last part of the path.
    pub name: &'static str,
    /// The kind that it takes or gives.
    pub kind: &'static str,
    /// The API group of that kind.
    pub group: &'static str,
    /// The version of that kind.
    pub version: &'static str,
    /// What may be done with it.
    pub verbs: &'static [&'static str],
}

/// What objects may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS name of up to 253 bytes.
    Subdomain,
    /// One part of a DNS name, up to 63 bytes.
    Label,
    /// A label that begins with a letter.
    Label1035,
    /// Anything that can be a part of a path.
    PathSegment,
}

impl Kind {
    /// `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Whether its objects are kept; otherwise requests are answered and forgotten.
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
    pub(crate) const fn below(mut self, subresources: &'static [Subresource]) -> Self {
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

    /// A part of the object itself, such as its status.
    pub(crate) const fn part(
        name: &'static str,
        gvk: (&'static str, &'static str, &'static str),
    ) -> Self {
        Self::new(name, gvk, SUBRESOURCE_VERBS)
    }
}
