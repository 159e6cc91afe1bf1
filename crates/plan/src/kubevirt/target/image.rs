//! Image references.

use super::TargetError;

/// Image of KubeVirt's virt-operator.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OperatorImage<'a> {
    pub registry: &'a str,
    /// The part of the name before `virt-operator`.
    pub prefix: &'a str,
    pub tag: Option<&'a str>,
    pub digest: Option<&'a str>,
}

/// Parses `registry/prefix-virt-operator:tag@digest`.
pub(super) fn parse(image: &str) -> Option<OperatorImage<'_>> {
    let (image, digest) = match image.split_once('@') {
        Some((image, digest)) => (image, Some(digest)),
        None => (image, None),
    };
    let (registry, name) = image.rsplit_once('/')?;
    let (name, tag) = match name.split_once(':') {
        Some((name, tag)) => (name, Some(tag)),
        None => (name, None),
    };
    Some(OperatorImage {
        registry,
        prefix: name.strip_suffix("virt-operator")?,
        tag: tag.filter(|tag| !tag.is_empty()),
        digest,
    })
}

pub(super) fn check_tag(tag: &str) -> Result<&str, TargetError> {
    if tag.trim_start_matches('@').starts_with("sha256:") {
        return Err(TargetError::Digest);
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let valid = tag.len() <= 128
        && tag.starts_with(word)
        && tag.chars().all(|c| word(c) || c == '.' || c == '-');
    if valid {
        Ok(tag)
    } else {
        Err(TargetError::Tag(tag.to_owned()))
    }
}

pub(super) fn check_registry(registry: &str) -> Result<&str, TargetError> {
    let part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| {
                c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '[' | ']')
            })
    };
    if registry.split('/').all(part) {
        Ok(registry)
    } else {
        Err(TargetError::Registry(registry.to_owned()))
    }
}
