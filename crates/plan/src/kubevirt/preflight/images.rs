//! Check that all images of the components belong to one release.

use std::collections::BTreeMap;

use super::{Finding, Severity, is_workload};
use crate::kubevirt::{desired::Desired, target::Target, tree};

struct Image<'a> {
    registry: &'a str,
    tag: Option<&'a str>,
}

impl<'a> Image<'a> {
    fn read(image: &'a str) -> Self {
        let (image, digest) = match image.split_once('@') {
            Some((image, digest)) => (image, Some(digest)),
            None => (image, None),
        };
        let (registry, name) = image.rsplit_once('/').unwrap_or(("", image));
        let tag = name.split_once(':').map(|(_, tag)| tag);
        Self {
            registry,
            tag: tag.filter(|_| digest.is_none()),
        }
    }
}

pub(super) fn findings(target: &Target, desired: &Desired) -> Vec<Finding> {
    let mut images: BTreeMap<String, String> = BTreeMap::new();
    for object in desired
        .objects
        .iter()
        .filter(|object| is_workload(&object.id))
    {
        let value = object.value();
        for list in ["containers", "initContainers"] {
            for container in tree::items(&value, &format!("/spec/template/spec/{list}")) {
                if let Some(image) = tree::text(container, "/image") {
                    let user = images.entry(image.to_owned());
                    user.or_insert_with(|| object.id.to_string());
                }
            }
        }
    }
    let mut findings = Vec::new();
    let mut warn = |subject: &str, message: String| {
        findings.push(Finding {
            severity: Severity::Warning,
            subject: subject.to_owned(),
            message,
            remedy: "Name all images of a release, by tag or by digest, or none".to_owned(),
        });
    };
    let by_digest = images.keys().filter(|image| image.contains('@')).count();
    for (image, object) in &images {
        let read = Image::read(image);
        if read.registry != target.registry {
            let message = format!("image {image} is not from {}", target.registry);
            warn(object, message);
        }
        match read.tag {
            Some(tag) if tag != target.version => {
                warn(
                    object,
                    format!("image {image} is not of {}", target.version),
                );
            }
            Some(_) if by_digest > 0 => {
                let message =
                    format!("image {image} is named by tag, and {by_digest} others by digest");
                warn(object, message);
            }
            _ => {}
        }
    }
    findings
}
