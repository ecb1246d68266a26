//! Where an address came from.

/// Where an address came from, in the order of choice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// The claim had it already.
    Recovered,
    /// The claim's reservation.
    Reserved,
    /// The pool's list.
    List,
    /// The pool's own: spares, retained, or released.
    Owned,
    /// A free floating IP of the project.
    Reuse,
    Created,
}

impl Origin {
    /// `Created` is the last: an origin that is missing here does not compile.
    #[expect(clippy::as_conversions, reason = "a constant can count its variants in no other way")]
    pub const ALL: [Self; Self::Created as usize + 1] =
        [Self::Recovered, Self::Reserved, Self::List, Self::Owned, Self::Reuse, Self::Created];

    /// The word for logs, metrics and the IPAddress's annotation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Reserved => "reserved",
            Self::List => "list",
            Self::Owned => "owned",
            Self::Reuse => "reuse",
            Self::Created => "created",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_origin_has_a_word_that_never_changes() {
        let words = ["recovered", "reserved", "list", "owned", "reuse", "created"];
        assert_eq!(Origin::ALL.map(Origin::as_str), words);
    }
}
