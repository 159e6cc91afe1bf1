//! Keyed digests of cloud-init data, to detect changes.
//!
//! The digest is recorded in annotations of the VirtualMachine and its instance, which more users may read
//! than the Secret. Without a key, they could guess a short password in otherwise known data.
//!
//! A new, lost or replaced key never restarts a guest, nor reports that it needs a restart: a matching
//! digest is kept while the guest may run, and one that cannot be compared counts as a match unless the
//! digest on the Secret differs. That one is not keyed, because whoever reads it may read the data.

use std::fmt::{self, Write as _};

use api::{kubevirt::ObservedVirtualMachine, labels};
use sha2::{Digest as _, Sha256};

/// Block size of SHA-256.
const BLOCK: usize = 64;

/// Prefix of keyed digests, followed by the key's identifier and the digest. Digests without a key are
/// hexadecimal.
const PREFIX: &str = "hmac-";

/// A random key. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct DigestKey([u8; 32]);

impl DigestKey {
    /// Returns `None` unless there are 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// HMAC-SHA256 (RFC 2104).
    fn sign(&self, text: &str) -> [u8; 32] {
        let pad = |byte: u8| {
            let mut block = [byte; BLOCK];
            for (place, key) in block.iter_mut().zip(self.0) {
                *place ^= key;
            }
            block
        };
        let mut inner = Sha256::new();
        inner.update(pad(0x36));
        inner.update(text.as_bytes());
        let mut outer = Sha256::new();
        outer.update(pad(0x5c));
        outer.update(inner.finalize());
        outer.finalize().into()
    }

    /// Prefix of all digests with this key.
    fn prefix(&self) -> String {
        let mut prefix = PREFIX.to_owned();
        write_hex(&mut prefix, &self.sign("identifier")[..4]);
        prefix.push('-');
        prefix
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

fn write_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
}

/// Whether the digest on a VirtualMachine is keyed, so that comparing it needs the key.
pub fn has_keyed_digest(vm: &ObservedVirtualMachine) -> bool {
    let spec = vm.spec.value();
    let annotations = spec.pointer("/template/metadata/annotations");
    let digest = annotations.and_then(|all| all.get(labels::CLOUD_INIT)?.as_str());
    digest.is_some_and(|digest| digest.starts_with(PREFIX))
}

/// Digest of the desired data, with and without the key.
#[derive(Debug)]
pub(super) struct Digest<'a> {
    plain: String,
    keyed: Option<Keyed>,
    /// The digest on the Secret, if it was observed.
    on_secret: Option<&'a str>,
}

#[derive(Debug)]
struct Keyed {
    prefix: String,
    digest: String,
}

impl<'a> Digest<'a> {
    /// `plain` is the digest without a key.
    pub(super) fn new(plain: String, key: Option<&DigestKey>, on_secret: Option<&'a str>) -> Self {
        let keyed = key.map(|key| {
            let prefix = key.prefix();
            let mut digest = prefix.clone();
            write_hex(&mut digest, &key.sign(&plain)[..16]);
            Keyed { prefix, digest }
        });
        Self {
            plain,
            keyed,
            on_secret,
        }
    }

    /// The digest without a key, for the Secret.
    pub(super) fn plain(&self) -> &str {
        &self.plain
    }

    /// Whether a recorded digest matches the desired data; `None` if it has another key.
    fn compare(&self, recorded: &str) -> Option<bool> {
        match &self.keyed {
            _ if !recorded.starts_with(PREFIX) => Some(recorded == self.plain),
            Some(keyed) if recorded.starts_with(&keyed.prefix) => Some(recorded == keyed.digest),
            _ => None,
        }
    }

    /// Whether the digest on the VirtualMachine matches the desired data, as far as known.
    pub(super) fn matches(&self, recorded: &str) -> bool {
        let on_secret = || self.on_secret.is_none_or(|digest| digest == self.plain);
        self.compare(recorded).unwrap_or_else(on_secret)
    }

    /// Whether the digest on an instance matches the desired data. `vm` is the one on its VirtualMachine,
    /// which the instance copied when it started.
    pub(super) fn matches_on_instance(&self, recorded: &str, vm: Option<&str>) -> bool {
        let as_vm = || vm == Some(recorded) && self.matches(recorded);
        self.compare(recorded).unwrap_or_else(as_vm)
    }

    /// The digest to record on the VirtualMachine. The recorded one is kept if it matches and either the
    /// guest may run, because its template must not change for this, or there is no key.
    pub(super) fn to_record(&self, recorded: Option<&str>, may_run: bool) -> String {
        let is_kept = |recorded: &&str| self.matches(recorded) && (may_run || self.keyed.is_none());
        match (recorded.filter(is_kept), &self.keyed) {
            (Some(recorded), _) => recorded.to_owned(),
            (None, Some(keyed)) => keyed.digest.clone(),
            (None, None) => self.plain.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn key(byte: u8) -> DigestKey {
        DigestKey([byte; 32])
    }

    fn digest<'a>(data: &str, byte: Option<u8>, on_secret: Option<&'a str>) -> Digest<'a> {
        Digest::new(data.to_owned(), byte.map(key).as_ref(), on_secret)
    }

    fn keyed(data: &str, byte: u8) -> String {
        digest(data, Some(byte), None).to_record(None, false)
    }

    /// Of RFC 4231; zeros after a key change nothing.
    #[rstest]
    #[case(&[0x0b; 20], "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")]
    #[case(
        b"Jefe",
        "what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )]
    fn it_is_hmac_sha256(#[case] key: &[u8], #[case] text: &str, #[case] expected: &str) {
        let mut bytes = [0; 32];
        bytes[..key.len()].copy_from_slice(key);
        let mut found = String::new();
        write_hex(&mut found, &DigestKey(bytes).sign(text));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_change_is_noticed_with_the_key_and_the_data_is_not_shown() {
        let recorded = keyed("abc", 1);
        assert!(recorded.starts_with("hmac-") && !recorded.contains("abc"));
        assert!(digest("abc", Some(1), None).matches(&recorded));
        // Whatever the Secret says.
        assert!(digest("abc", Some(1), Some("abd")).matches(&recorded));
        assert!(!digest("abd", Some(1), Some("abd")).matches(&recorded));
        assert!(!format!("{:?}", key(1)).contains('1'));
    }

    #[rstest]
    #[case::plain_with_a_key(Some(1), "abc".to_owned())]
    #[case::of_a_lost_key(Some(1), keyed("abc", 2))]
    #[case::of_a_key_that_cannot_be_read(None, keyed("abc", 2))]
    fn other_digests_are_kept_while_the_guest_may_run(
        #[case] key: Option<u8>,
        #[case] recorded: String,
    ) {
        for on_secret in [None, Some("abc")] {
            let desired = digest("abc", key, on_secret);
            assert!(desired.matches(&recorded));
            assert!(desired.matches_on_instance(&recorded, Some(&recorded)));
            assert_eq!(desired.to_record(Some(&recorded), true), recorded);
        }
    }

    #[test]
    fn the_key_in_force_is_adopted_once_the_guest_does_not_run() {
        let desired = digest("abc", Some(1), Some("abc"));
        for recorded in ["abc".to_owned(), keyed("abc", 2)] {
            assert_eq!(
                desired.to_record(Some(&recorded), false),
                keyed("abc", 1),
                "{recorded}"
            );
        }
        // Without a key, none is given up.
        let keyless = digest("abc", None, Some("abc"));
        let recorded = keyed("abc", 2);
        assert_eq!(keyless.to_record(Some(&recorded), false), recorded);
    }

    #[rstest]
    #[case::another_key(Some(1))]
    #[case::no_key(None)]
    fn without_the_key_the_secret_shows_a_change(#[case] key: Option<u8>) {
        let recorded = keyed("abc", 2);
        let desired = digest("abd", key, Some("abc"));
        assert!(!desired.matches(&recorded));
        assert!(!desired.matches_on_instance(&recorded, Some(&recorded)));
        assert_eq!(
            desired.to_record(Some(&recorded), true),
            desired.to_record(None, true)
        );
        // Afterwards the instance differs from its VirtualMachine.
        let desired = digest("abd", key, Some("abd"));
        let new = desired.to_record(None, true);
        assert!(desired.matches(&new));
        assert!(!desired.matches_on_instance(&recorded, Some(&new)));
    }
}
