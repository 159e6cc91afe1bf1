//! Parameters of a strategy.

use serde_json::{Value, json};

use crate::object::{map, text};

/// Version, namespace and images of an installation.
pub(super) struct Release<'a> {
    /// As in `v1.9.0`.
    pub version: &'a str,
    pub namespace: &'a str,
    minor: u64,
    registry: &'a str,
    config: &'a Value,
}

impl<'a> Release<'a> {
    pub fn of(version: &'a str, config: &'a Value) -> Option<Self> {
        let minor = minor(version)?;
        let or = |value: &'a str, default: &'a str| if value.is_empty() { default } else { value };
        Some(Self {
            version,
            minor,
            namespace: or(text(config, "/namespace"), "kubevirt"),
            registry: or(text(config, "/registry"), "registry.example/kubevirt"),
            config,
        })
    }

    /// Whether the release is 1.9 or later.
    pub fn has_plugins(&self) -> bool {
        self.minor >= 9
    }

    /// Image of a component; the configuration may override it.
    pub fn image(&self, component: &str, field: &str) -> String {
        let given = text(self.config, &format!("/{field}"));
        if !given.is_empty() {
            return given.to_owned();
        }
        let prefix = text(self.config, "/imagePrefix");
        format!("{}/{prefix}{component}:{}", self.registry, self.version)
    }

    /// A property of the configuration; may be empty.
    pub fn property(&self, name: &str) -> Option<&'a str> {
        map(self.config, "/additionalProperties")?
            .get(name)?
            .as_str()
    }

    pub fn pull_policy(&self) -> &'a str {
        match self.property("ImagePullPolicy") {
            None | Some("") => "IfNotPresent",
            Some(policy) => policy,
        }
    }

    pub fn pull_secrets(&self) -> Option<Value> {
        let secrets = serde_json::from_str(self.property("ImagePullSecrets")?).ok()?;
        Some(secrets)
            .filter(|secrets: &Value| secrets.as_array().is_some_and(|all| !all.is_empty()))
    }

    /// Environment variables of all components.
    pub fn passed_through(&self) -> Vec<Value> {
        let given = map(self.config, "/passthroughEnvVars")
            .into_iter()
            .flatten();
        given
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect()
    }
}

fn minor(version: &str) -> Option<u64> {
    let release = version.strip_prefix("v1.")?;
    // A hyphen or plus sign starts a pre-release or build suffix.
    let end = release.find(['-', '+']).unwrap_or(release.len());
    let (minor, patch) = release.get(..end)?.split_once('.')?;
    patch.parse::<u64>().ok()?;
    minor.parse().ok()
}
