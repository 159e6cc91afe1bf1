//! Simulated effect of a write to a Secret, for previews and tests.

use super::{Issue, Pair, SecretChange, Signer, Slot};
use crate::Fingerprint;

impl Issue {
    /// The content of the Secret after the write. `signer` is the active CA that signs, and
    /// `certificate` stands for the new certificate. None if the change does not apply to `before`.
    pub fn simulate(
        &self,
        before: Option<&Pair>,
        signer: Option<&Pair>,
        certificate: &str,
    ) -> Option<Pair> {
        match &self.change {
            SecretChange::New(new) => {
                let issued = Pair {
                    signed_by: Some(Signer {
                        fingerprint: Fingerprint::of(
                            signer.map_or(certificate, |signer| &signer.certificate),
                        ),
                        not_after: signer.map_or(&new.not_after, |by| &by.not_after).clone(),
                    }),
                    certificate: certificate.to_owned(),
                    not_before: new.not_before.clone(),
                    not_after: new.not_after.clone(),
                    key_matches: true,
                    common_name: new.common_name.clone(),
                    dns_names: new.dns_names.clone(),
                    usage: Some(new.usage),
                    next: None,
                    duration: Some(new.duration.clone()),
                    published: None,
                    signs: None,
                };
                match new.slot {
                    Slot::Current => Some(issued),
                    Slot::Next => Some(Pair {
                        duration: issued.duration.clone(),
                        published: None,
                        next: Some(Box::new(issued)),
                        ..before?.clone()
                    }),
                }
            }
            SecretChange::Published(at) => Some(Pair {
                published: Some(at.clone()),
                ..before?.clone()
            }),
            SecretChange::Promote(at) => {
                let before = before?;
                let next = before.next.as_deref()?;
                Some(Pair {
                    published: before.published.clone(),
                    signs: Some(at.clone()),
                    ..next.clone()
                })
            }
        }
    }
}
