//! Whose credentials show a floating IP. A role may see less of a project than another one, down to nothing: Neutron answers
//! 200 with what it may see. So what one viewer does not see may exist.

/// The credentials that a call is made with. Within one project, equal credentials are one viewer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Viewer(u8);

impl Viewer {
    /// More credentials than a project can tell apart share this one.
    pub const LAST: Self = Self(63);

    pub fn all() -> impl Iterator<Item = Self> {
        (0..=Self::LAST.0).map(Self)
    }

    fn bit(self) -> u64 {
        1_u64.checked_shl(self.0.into()).unwrap_or_default()
    }
}

/// The viewers whose last listings, or later calls, have shown a floating IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Viewers(u64);

impl Viewers {
    pub(super) fn one(viewer: Viewer) -> Self {
        Self(viewer.bit())
    }

    pub(super) fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    pub(super) fn remove(&mut self, viewer: Viewer) {
        self.0 &= !viewer.bit();
    }

    pub(super) fn include(self, viewer: Viewer) -> bool {
        self.0 & viewer.bit() != 0
    }

    pub(super) fn include_others_than(self, viewer: Viewer) -> bool {
        self.0 & !viewer.bit() != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}
