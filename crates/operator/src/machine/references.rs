//! Live read of the references from a namespace's VirtualMachines and instances to claims.
//!
//! The lists carry no resourceVersion, so the API server answers with the most recent state.

use std::fmt::Write as _;

use api::kubevirt::ReferrerList;
use kube::Error;
use plan::machine::{Kind, Part, References, Refusal};

use super::{paths, refusal::Subject};
use crate::requests::{Requests, in_one_line, is_code, status_message};

/// Objects in one answer.
const PAGE: usize = 250;

/// Number of times that a list is started, if its continue token expires.
const ATTEMPTS: usize = 3;

/// Reads the references of a namespace. A 404 means an empty list only if the caches also show that the
/// kind is not served.
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

/// Percent-encodes a query value.
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

/// Refusal to delete disks after a failed read.
pub(super) fn refused(namespace: &str, error: &Error) -> Refusal {
    let subject = Subject {
        part: Part::Storage,
        kind: "Namespace",
        name: namespace,
    };
    let message = match error {
        Error::Api(status) => status_message(status),
        error => in_one_line(&error.to_string()),
    };
    Refusal {
        message: format!(
            "VirtualMachines and instances cannot be listed, so no disk is deleted: {message}"
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
