//! What a Secret holds once a write to it is done, for those who only imagine it.

use super::{Issue, Pair, SecretChange, Signer, Slot};
use crate::Fingerprint;

impl Issue {
    /// What is in the Secret afterwards. `before` is what was in it, `signer` the CA in office that
    /// signs, and `certificate` stands for the one that is made. None if there is nothing to go on
    /// from.
    pub fn simulate(
        &self,
        before: Option<&Pair>,
        signer: Option<&Pair>,
        certificate: &str,
    ) -> Option<Pair> {
        match &self.change {
            SecretChange::New(new) => {
                let made = Pair {
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
                    Slot::Current => Some(made),
                    Slot::Next => Some(Pair {
                        duration: made.duration.clone(),
                        published: None,
                        next: Some(Box::new(made)),
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
