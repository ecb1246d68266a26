//! A hash over a list of parts.

use sha2::{Digest, Sha256};

/// Different lists have different hashes, since each part has its length before it.
pub(crate) fn hash_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_same_bytes_differ_by_their_parts() {
        let hash = |parts: &[&str]| hash_parts(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(hash(&["a", "b"]), hash(&["a", "b"]));
        for other in [&["ab"][..], &["", "ab"], &["ab", ""], &["b", "a"], &[]] {
            assert_ne!(hash(&["a", "b"]), hash(other), "{other:?}");
        }
    }
}
