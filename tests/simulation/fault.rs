//! What can go wrong with one call between a process and a server.

use std::time::Duration;

/// The two servers that are called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    Kubernetes,
    OpenStack,
}

/// How a call is refused: not done, and the caller gets an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// 500 of a server that did nothing.
    Server,
    /// 429.
    TooMany,
    /// 429 that asks to wait for five minutes.
    Later,
    /// 409.
    Conflict,
    /// 403, as of a role, a policy or a quota.
    Forbidden,
    /// 404 with a page, as of a proxy: it says nothing about what was asked for.
    Page,
    /// The connection is refused.
    Unreachable,
}

/// What goes wrong with one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process dies before it sends.
    CrashBefore,
    /// The process dies when the call is done, before it reads the answer.
    CrashAfter,
    /// The process dies as it sends; the call is done this much later.
    CrashAndLand(Duration),
    /// Done, and the caller sees a timeout.
    ReplyLost,
    /// Not done, and the caller sees a timeout.
    RequestLost,
    /// Not done, and the caller gets an error.
    Refused(Rejection),
    /// Done, and the code that reads OpenStack's answer panics.
    Panic,
    /// Done twice; the caller gets the second answer. A POST to OpenStack is done once all the same: two floating IPs with
    /// one nonce cannot be told from a copied mark.
    Twice,
    /// From this call on the API server cannot be reached for this long, and the call itself is late by as much: the lease
    /// of a leader expires while it waits.
    CutOff(Duration),
    /// Done only after this long; the caller may time out before.
    Late(Duration),
    /// Not done, and the caller gets an error only after this long: a webhook that does not answer.
    RefusedLate(Duration),
}

/// What the caller gets in place of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallFailure {
    /// It may have been done or not.
    NoAnswer,
    Refused(Rejection),
}

#[derive(Clone, Debug)]
pub struct Call {
    pub side: Side,
    /// What kind of call it is, without names.
    pub kind: String,
    pub what: String,
    pub is_write: bool,
}
