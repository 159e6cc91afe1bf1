//! Initial content of a disk: exactly one source, from where the operator may copy.

use api::{DiskSource, ObjectSource};

use super::{Place, Resolver};
use crate::{
    machine::{DataVolumeContent, ResolvedSource},
    naming,
};

impl Resolver<'_> {
    /// Resolves a source. One with errors resolves too, so that the rest of the disk is checked.
    pub(super) fn source(
        &mut self,
        place: Place,
        disk: &str,
        source: &DiskSource,
    ) -> ResolvedSource {
        let mut given = contents(source);
        let content = given.next();
        if content.is_none() || given.next().is_some() {
            self.findings.invalid(
                place.field("source"),
                "give exactly one of http, registry, pvc, snapshot, ref and blank",
            );
        }
        content.map_or(ResolvedSource::Empty, |content| {
            self.check_content(place, disk, &content);
            ResolvedSource::DataVolume(content)
        })
    }

    fn check_content(&mut self, place: Place, disk: &str, content: &DataVolumeContent) {
        match content {
            DataVolumeContent::Http(http) => {
                let schemes = ["http://", "https://"];
                self.check_url(place, "source.http.url", &http.url, schemes);
            }
            DataVolumeContent::Registry(registry) => {
                let schemes = ["docker://", "oci-archive://"];
                self.check_url(place, "source.registry.url", &registry.url, schemes);
            }
            DataVolumeContent::Pvc(pvc) => {
                let is_near = pvc.namespace.is_none() || pvc.namespace.as_deref() == self.namespace;
                if is_near && pvc.name == naming::claim(self.machine, disk) {
                    self.findings.invalid(
                        place.field("source.pvc.name"),
                        "is the claim of this disk itself: name the claim to copy",
                    );
                }
                self.check_clone_source(place, "source.pvc.namespace", disk, pvc);
                self.note_unknown_namespace(place, "source.pvc.namespace", pvc);
            }
            DataVolumeContent::Snapshot(snapshot) => {
                self.check_clone_source(place, "source.snapshot.namespace", disk, snapshot);
                self.note_unknown_namespace(place, "source.snapshot.namespace", snapshot);
            }
            DataVolumeContent::DataSource(reference) => {
                self.check_clone_source(place, "source.ref.namespace", disk, reference);
            }
            DataVolumeContent::Blank => {}
        }
    }

    fn check_url(&mut self, place: Place, field: &str, url: &str, schemes: [&str; 2]) {
        if !schemes.iter().any(|scheme| url.starts_with(scheme)) {
            let [one, other] = schemes;
            let message = format!("must begin with {one} or {other}");
            self.findings.invalid(place.field(field), message);
        }
    }

    /// Cloning happens once: an existing disk is not refused when the setting changes.
    fn check_clone_source(&mut self, place: Place, field: &str, disk: &str, object: &ObjectSource) {
        let Some(namespace) = object.namespace.as_deref() else {
            return;
        };
        if self.namespace == Some(namespace) || self.kept_classes.contains_key(disk) {
            return;
        }
        let path = place.field(field);
        match self.clone_sources.allow(namespace) {
            Some(true) => {}
            Some(false) => self.findings.invalid(
                path,
                format!(
                    "disks are not copied from namespace {namespace:?}: name an object of the \
                     Machine's own namespace, or have the operator's administrator add \
                     {namespace:?} to the setting CLONE_SOURCE_NAMESPACES"
                ),
            ),
            None => self.findings.note(
                path,
                format!(
                    "is copied only where the operator's setting CLONE_SOURCE_NAMESPACES names \
                     {namespace:?}, which is not known here"
                ),
            ),
        }
    }

    fn note_unknown_namespace(&mut self, place: Place, field: &str, object: &ObjectSource) {
        if self.namespace.is_none() && object.namespace.is_none() {
            self.findings.note(
                place.field(field),
                "is that of the Machine, which is not known here: CDI needs it; give a namespace",
            );
        }
    }
}

/// The contents that a source names: one, unless it is invalid.
fn contents(source: &DiskSource) -> impl Iterator<Item = DataVolumeContent> {
    let DiskSource {
        http,
        registry,
        pvc,
        snapshot,
        reference,
        blank,
    } = source.clone();
    [
        http.map(DataVolumeContent::Http),
        registry.map(DataVolumeContent::Registry),
        pvc.map(DataVolumeContent::Pvc),
        snapshot.map(DataVolumeContent::Snapshot),
        reference.map(DataVolumeContent::DataSource),
        blank.map(|_| DataVolumeContent::Blank),
    ]
    .into_iter()
    .flatten()
}
