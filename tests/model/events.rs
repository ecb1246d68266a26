//! What an owner is and what can happen to it: plain values.

use crate::neutron::{Call, Seen};

/// What is broken on purpose, to see that the model notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// What is tagged is published without a look.
    NoConfirm,
    /// Beside another owner's mark ours stays.
    NoWithdrawal,
    /// A new process does not wait for the calls of the old one.
    NoFence,
    /// A call without an answer counts as not done.
    NoDoubt,
    /// A call that takes a tag off is sent again when there is no answer, as one that adds a tag is.
    RepeatedRemoval,
    /// A call whose second attempt is refused counts as refused, although the first may still land.
    BelievesTheLastAttempt,
    /// A refused call gives the address up, although an earlier one may still land.
    GivesUpInDoubt,
}

/// A pool as its spec has it: the first `listed` floating IPs are its list, and it may reuse the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spec {
    pub listed: usize,
    pub reuses: bool,
    pub claims: usize,
    pub flaw: Option<Flaw>,
}

/// Where a claim is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Life {
    Absent,
    Stays,
    Goes,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    pub life: Life,
    /// What its IPAddress names.
    pub published: Option<u8>,
    /// An attempt to serve it goes on, and does not look at Kubernetes again before it ends.
    pub is_served: bool,
    /// The controller was restarted since the claim came: whose a port is, nobody can tell any more.
    pub is_old: bool,
}

/// What a call is a part of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Work {
    Mark,
    TakeBack,
    Withdraw,
    Release,
    /// A sweep's chore; whether it takes our marks off an address that nobody else has marked.
    Sweep(bool),
}

/// Calls that are made one after the other; the first is under way. One at a time for each claim and each floating IP.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Job {
    pub work: Work,
    pub calls: Vec<Call>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    Done,
    /// Certainly not done.
    Undone,
    /// Perhaps done, perhaps yet to be.
    Unknown,
}

/// What happens to an owner.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    Create(usize),
    Delete(usize),
    /// A claim's controller decides, and does what was decided.
    Serve(usize),
    Sweep,
    Answered(usize, Reply),
    /// A listing begins.
    Look,
    /// It has ended.
    Listed(Vec<Seen>),
    Pass,
    Crash,
}
