//! The certificates of an installation: whose they are, and how long they are valid. When they are
//! renewed, and which bundles go round, is in [`crate::certificates`].

mod profile;
mod settings;
#[cfg(test)]
mod tests;

pub use profile::{AUTHORITIES, CA, note, profile};
pub use settings::{DEFAULT, SettingsError, settings};

/// Where a ConfigMap has its bundle.
pub const BUNDLE: &str = "ca-bundle";

/// The ConfigMap in which people put further CAs that components are to trust.
pub const EXTERNAL: &str = "kubevirt-external-ca";
