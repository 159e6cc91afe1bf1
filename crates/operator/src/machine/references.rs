//! Live read of the claims that VirtualMachines and instances of a namespace refer to.
//!
//! The lists carry no resourceVersion, so the API server answers with the most recent state.

use std::fmt::Write as _;

use api::kubevirt::ReferrerList;
use kube::Error;
use plan::machine::{Kind, Part, References, Refusal};

use super::{paths, refusal::Subject};
use crate::requests::{Requests, in_one_line, is_code, words};

/// Objects in one answer.
const PAGE: usize = 250;

/// How often a list is begun again whose pages are no longer kept.
const ATTEMPTS: usize = 3;

/// Reads the references of a namespace. A kind that is not served has no objects, if the caches say so
/// as well.
pub(super) async fn read(
    requests: &Requests,
    namespace: &str,
    is_served: bool,
) -> Result<References, Error> {
    let mut references = References::default();
    for kind in [Kind::VirtualMachine, Kind::VirtualMachineInstance] {
        let mut attempt = 1;
        let items = loop {
            match list(requests, kind, namespace).await {
                Ok(items) => break items,
                Err(error) if is_code(&error, 404) && !is_served => break Vec::new(),
                Err(error) if is_code(&error, 410) && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        };
        for item in items {
            references.add(kind, item);
        }
    }
    Ok(references)
}

async fn list(
    requests: &Requests,
    kind: Kind,
    namespace: &str,
) -> kube::Result<Vec<api::kubevirt::Referrer>> {
    let collection = paths::collection(kind, namespace);
    let mut items = Vec::new();
    let mut page = format!("{collection}?limit={PAGE}");
    loop {
        let list: ReferrerList = requests.read(&page).await?;
        let next = list.next_page().map(|token| {
            let query = form_urlencoded(token);
            format!("{collection}?limit={PAGE}&continue={query}")
        });
        items.extend(list.items());
        match next {
            Some(next) => page = next,
            None => return Ok(items),
        }
    }
}

/// A value of a query, with everything escaped that means something there.
fn form_urlencoded(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Why no disk can be deleted now.
pub(super) fn refused(namespace: &str, error: &Error) -> Refusal {
    let subject = Subject {
        part: Part::Storage,
        kind: "Namespace",
        name: namespace,
    };
    let words = match error {
        Error::Api(status) => words(status),
        error => in_one_line(&error.to_string()),
    };
    Refusal {
        message: format!(
            "VirtualMachines and instances cannot be listed, so no disk is deleted: {words}"
        ),
        ..subject.refused(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_is_escaped() {
        assert_eq!(form_urlencoded("a-Z_0.~=+/&"), "a-Z_0.~%3D%2B%2F%26");
    }
}
