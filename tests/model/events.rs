//! Plain values: what describes an owner, and the events that change it.

use crate::neutron::{Call, ListedFip};

/// A deliberate bug in the product, to test that the model detects it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// A tagged address is published without reading it again.
    NoConfirm,
    /// Our mark stays beside another owner's.
    NoWithdrawal,
    /// A new process does not wait until its predecessor's calls have settled.
    NoFence,
    MissingReplyIsRefusal,
    /// A call that removes a tag is resent without a reply, as one that adds a tag is.
    ResentRemoval,
    /// A call whose second attempt is refused counts as refused, although the first may still arrive.
    TrustsLastAttempt,
    /// A refused call gives up the address, although an earlier one may still arrive.
    GivesUpWhileUncertain,
    /// After two pools have backed off from an address, both try again at once.
    NoPrecedence,
    /// A claim whose IPAddress was deleted counts as one that never had an address.
    ForgetsBinding,
}

/// A pool's spec: the first `listed` floating IPs are its list, and it may reuse the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spec {
    pub listed: usize,
    pub reuses: bool,
    pub claims: usize,
    pub flaw: Option<Flaw>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lifecycle {
    Absent,
    Active,
    Deleting,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    pub lifecycle: Lifecycle,
    /// The floating IP that its IPAddress names.
    pub published: Option<u8>,
    /// The floating IP that it had last, while its status references an IPAddress, also one that a user deleted.
    pub bound: Option<u8>,
    /// An attempt to serve it is in progress. Until it ends, a deletion goes unnoticed.
    pub is_being_served: bool,
    /// The controller has restarted since the claim was created, and cannot know who attached a port.
    pub predates_process: bool,
}

impl Claim {
    pub fn new(lifecycle: Lifecycle) -> Self {
        Self { lifecycle, published: None, bound: None, is_being_served: false, predates_process: false }
    }
}

/// What an operation is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperationKind {
    Mark,
    TakeBack,
    Withdraw,
    Release,
    /// A sweep action, and whether it removes the marks of a released address without another owner's.
    Sweep(bool),
}

/// Calls in sequence, of which the first is in progress. Each claim and each floating IP has at most one operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Operation {
    pub kind: OperationKind,
    pub calls: Vec<Call>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    Done,
    /// Certainly not applied.
    Refused,
    /// Perhaps applied, now or later.
    Unknown,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    Create(usize),
    Delete(usize),
    /// A user deletes its IPAddress.
    DeleteAddress(usize),
    /// A claim's controller decides and acts.
    Serve(usize),
    Sweep,
    Answered(usize, Reply),
    StartListing,
    Listed(Vec<ListedFip>),
    PassTime,
    Crash,
}
