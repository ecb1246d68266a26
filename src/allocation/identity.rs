//! Who owns a floating IP: identities that survive a move, a backup and a rebuilt management cluster. Never a UID.

use std::fmt;

use sha2::{Digest, Sha256};

/// At most N characters of ASCII without NUL, in place: there are thousands of identities, each in several indexes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Characters<const N: usize>([u8; N]);

impl<const N: usize> Characters<N> {
    /// What does not fit is left out; every caller has checked the length.
    fn new(text: &str) -> Self {
        let mut bytes = [0; N];
        bytes.iter_mut().zip(text.bytes()).for_each(|(byte, character)| *byte = character);
        Self(bytes)
    }

    fn as_str(&self) -> &str {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

impl<const N: usize> fmt::Debug for Characters<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A pool's identity in Neutron: `^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(Characters<{ Self::LENGTH }>);

impl PoolId {
    /// At most.
    const LENGTH: usize = 20;

    pub fn parse(text: &str) -> Option<Self> {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_valid = (1..=Self::LENGTH).contains(&text.len())
            && text.chars().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        is_valid.then(|| Self(Characters::new(text)))
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A claim's identity within its pool: 80 bits of a hash of namespace and name, as 16 characters.
///
/// The same claim has the same key on any management cluster and after any restore.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClaimKey(Characters<{ Self::LENGTH }>);

const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl ClaimKey {
    const LENGTH: usize = 16;

    #[expect(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        reason = "five bits are less than 32, and the last of 16 groups of them begins at bit 75 of 128"
    )]
    pub fn of(namespace: &str, name: &str) -> Self {
        // Neither name can contain a slash, so no two claims have the same text.
        let digest: [u8; 32] = Sha256::digest(format!("{namespace}/{name}")).into();
        let mut bits = [0; 16];
        bits[6..].copy_from_slice(&digest[..10]);
        let bits = u128::from_be_bytes(bits);
        let mut characters = (0..Self::LENGTH).rev().map(|group| BASE32[(bits >> (group * 5) & 31) as usize]);
        Self(Characters(std::array::from_fn(|_| characters.next().unwrap_or_default())))
    }

    /// Comes before the key of any claim.
    pub(super) fn lowest() -> Self {
        Self(Characters::new(""))
    }

    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == Self::LENGTH && text.bytes().all(|b| BASE32.contains(&b))).then(|| Self(Characters::new(text)))
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Identifies one POST: two floating IPs with the same nonce mean that a mark was copied by hand.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Nonce(Characters<{ Self::LENGTH }>);

impl Nonce {
    /// There are 36^10 nonces, so that a project never sees one twice.
    pub const LENGTH: usize = 10;

    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == Self::LENGTH && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()))
            .then(|| Self(Characters::new(text)))
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_key_never_changes() {
        // Written into clouds: a change of this value orphans every address in use.
        assert_eq!(ClaimKey::of("team-a", "web-0-floating-ip-address").as_str(), "ycoc2kwygv6svbdo");
    }

    #[test]
    fn claims_with_the_same_concatenated_name_have_different_keys() {
        assert_ne!(ClaimKey::of("a", "b-c"), ClaimKey::of("a-b", "c"));
        assert_ne!(ClaimKey::of("ab", "c"), ClaimKey::of("a", "bc"));
    }

    #[test]
    fn a_pool_id_has_the_form_that_the_crd_requires() {
        for good in ["a", "0", "a-b", "abcdefghij0123456789"] {
            assert!(PoolId::parse(good).is_some(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "abcdefghij01234567890"] {
            assert!(PoolId::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_identity_is_logged_as_text() {
        assert_eq!(format!("{:?}", PoolId::parse("a-b").unwrap()), r#"PoolId("a-b")"#);
    }
}
