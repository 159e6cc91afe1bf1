//! Names and lifetimes of an installation's certificates. Their rotation is in
//! [`crate::certificates`].

mod profile;
mod settings;
#[cfg(test)]
mod tests;

pub use profile::{AUTHORITIES, CA, note, profile};
pub use settings::{DEFAULT, SettingsError, settings};

/// Key of the bundle in a ConfigMap.
pub const BUNDLE: &str = "ca-bundle";

/// ConfigMap of users with further CAs that components trust.
pub const EXTERNAL: &str = "kubevirt-external-ca";
