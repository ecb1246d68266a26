//! Fair shares between tenants, so that one that is slow or asks for much delays the others as little as possible.
//!
//! [`FairSlots`] limits concurrent calls; [`Turns`] has the order in which keys are served. Both are deterministic, and
//! keep nothing of a key that neither uses nor waits for anything, unless it was given a limit.

mod slots;
mod turns;

pub(crate) use slots::{FairSlots, Slot};
pub(crate) use turns::{Share, Turns};
