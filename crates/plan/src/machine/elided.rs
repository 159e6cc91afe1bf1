//! Elision of large cloud-init data from cached Machines.
//!
//! A Machine may contain up to 1.5 MB of it, which is needed only to write its Secret. The cached Machine
//! has a digest instead, to decide whether the Secret must be written. The digest is in an annotation that
//! exists in caches only; a user's annotation of that name is dropped.

use std::borrow::Cow;

use api::{Machine, ObjectMeta};

use super::{cloud_init_secret::has_text, plan::compare, resolve::decode_base64};

/// Larger cloud-init data is not cached.
const LARGEST_CACHED: usize = 16 * 1024;

const ANNOTATION: &str = "cache.vitistack.io/elided-cloud-init";

/// What replaces the cloud-init data in a cached Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elided {
    /// [`digest`] of the complete data, if there was user data.
    pub(super) digest: Option<String>,
    /// Number of bytes that were replaced.
    pub(super) length: usize,
}

/// Digest of cloud-init data, to detect changes. Large network data is included by its own digest, which
/// also replaces it in a cached Machine.
pub(super) fn digest(uid: &str, user_data: &[u8], network_data: &str) -> String {
    let network_data = bounded(network_data);
    compare::digest([uid.as_bytes(), user_data, network_data.as_bytes()])
}

fn bounded(network_data: &str) -> Cow<'_, str> {
    if network_data.len() > LARGEST_CACHED {
        compare::digest([network_data.as_bytes()]).into()
    } else {
        network_data.into()
    }
}

pub fn elide_cloud_init(machine: &mut Machine) {
    if let Some(annotations) = &mut machine.metadata.annotations {
        annotations.remove(ANNOTATION);
    }
    let Some(cloud_init) = &mut machine.spec.cloud_init else {
        return;
    };
    let mut length = 0;
    let is_large = |data: &mut String| data.len() > LARGEST_CACHED;
    if !has_text(cloud_init.network_data.as_ref())
        && let Some(encoded) = cloud_init.network_data_base64.take_if(is_large)
    {
        match decode_base64(&encoded).map(String::from_utf8) {
            Some(Ok(decoded)) => cloud_init.network_data = Some(decoded),
            // It is small again once the error is corrected.
            Some(Err(_)) | None => cloud_init.network_data_base64 = Some(encoded),
        }
    }
    if let Some(network_data) = &mut cloud_init.network_data
        && network_data.len() > LARGEST_CACHED
    {
        length += network_data.len();
        *network_data = bounded(network_data).into_owned();
    }
    let user_data = match &cloud_init.user_data {
        Some(text) if !text.is_empty() => {
            let text = cloud_init.user_data.take_if(is_large);
            text.map(String::into_bytes)
        }
        _ => {
            let encoded = cloud_init.user_data_base64.as_deref();
            let large = encoded.filter(|encoded| encoded.len() > LARGEST_CACHED);
            large.and_then(decode_base64)
        }
    };
    if user_data.is_some() {
        cloud_init.user_data_base64 = None;
    }
    length += user_data.as_ref().map_or(0, Vec::len);
    if length == 0 {
        return;
    }
    let uid = machine.metadata.uid.as_deref().unwrap_or_default();
    let network_data = cloud_init.network_data.as_deref().unwrap_or_default();
    let digest = user_data.map(|data| digest(uid, &data, network_data));
    let note = format!("{length} {}", digest.unwrap_or_default());
    let annotations = machine.metadata.annotations.get_or_insert_default();
    annotations.insert(ANNOTATION.to_owned(), note);
}

/// Restores the cloud-init data of a cached Machine from the complete one.
pub fn restore_cloud_init(cached: &mut Machine, whole: &Machine) {
    if let Some(annotations) = &mut cached.metadata.annotations {
        annotations.remove(ANNOTATION);
    }
    cached.spec.cloud_init.clone_from(&whole.spec.cloud_init);
}

/// Whether the spec contains the user data.
pub fn has_inline_user_data(machine: &Machine) -> bool {
    let cloud_init = machine.spec.cloud_init.as_ref();
    cloud_init
        .is_some_and(|it| has_text(it.user_data.as_ref()) || has_text(it.user_data_base64.as_ref()))
        || elided(&machine.metadata).is_some_and(|elided| elided.digest.is_some())
}

/// The replacement of the cloud-init data, if it was elided.
pub(super) fn elided(metadata: &ObjectMeta) -> Option<Elided> {
    let note = metadata.annotations.as_ref()?.get(ANNOTATION)?;
    let (length, digest) = note.split_once(' ')?;
    Some(Elided {
        digest: (!digest.is_empty()).then(|| digest.to_owned()),
        length: length.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::{Surroundings, resolve};

    fn machine(user_data: &str, network_data: &str) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "", "kind": "",
            "metadata": { "name": "web", "namespace": "shop", "uid": "m1" },
            "spec": { "cloudInit": { "userData": user_data, "networkData": network_data,
                                     "secretRef": { "name": "other" } } },
        }))
        .unwrap()
    }

    #[test]
    fn small_data_stays() {
        let whole = machine("#cloud-config", "version: 2");
        let mut cached = whole.clone();
        elide_cloud_init(&mut cached);
        assert_eq!(cached, whole);
    }

    #[test]
    fn large_data_is_replaced_by_the_digest_that_it_has() {
        for (user, network) in [
            ("u".repeat(800_000), "n".repeat(10)),
            ("u".repeat(10), "n".repeat(20_000)),
            (String::new(), "n".repeat(20_000)),
        ] {
            let whole = machine(&user, &network);
            let mut cached = whole.clone();
            elide_cloud_init(&mut cached);
            assert!(serde_json::to_string(&cached).unwrap().len() < 1024);
            assert_eq!(has_inline_user_data(&cached), !user.is_empty());
            let elided = elided(&cached.metadata).unwrap();
            let cached_network = cached.spec.cloud_init.as_ref().unwrap();
            let cached_network = cached_network.network_data.as_deref().unwrap();
            let expected = digest("m1", user.as_bytes(), &network);
            let found = elided
                .digest
                .unwrap_or_else(|| digest("m1", user.as_bytes(), cached_network));
            assert_eq!(found, expected);
            restore_cloud_init(&mut cached, &whole);
            assert_eq!(cached.spec, whole.spec);
        }
    }

    #[test]
    fn a_users_annotation_is_dropped() {
        let mut cached = machine("#cloud-config", "");
        cached.metadata.annotations = Some([(ANNOTATION.to_owned(), "1 x".to_owned())].into());
        elide_cloud_init(&mut cached);
        assert_eq!(elided(&cached.metadata), None);
    }

    #[test]
    fn more_than_fits_into_a_secret_is_refused_all_the_same() {
        let mut cached = machine(&"u".repeat(1024 * 1024 + 1), "");
        elide_cloud_init(&mut cached);
        let errors = resolve(&cached, &Surroundings::default()).unwrap_err();
        assert_eq!(errors[0].path, "spec.cloudInit");
    }
}
