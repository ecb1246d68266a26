//! What goes wrong, in which calls, while claims are bound and released.

use std::time::Duration;

use super::super::*;
use super::CLAIMS;
use crate::support::{EVERYTHING, Fault, NEUTRON, TOKEN, pool};

const CREATE: &str = "POST floatingips";
const LIST: &str = "GET floatingips";
const DESCRIBE: &str = "PUT floatingips/ID";
const TAG: &str = "PUT floatingips/ID/tags/TAG";
const DELETE: &str = "DELETE floatingips/ID";

/// Where a pool's addresses come from, which decides the calls of a burst.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Each is created.
    New,
    /// Each is tagged and read back.
    Predefined,
    /// Each is described.
    Spare,
}

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) source: Source,
    /// Faults while claims are bound.
    pub(super) binding: Vec<Fault>,
    /// Faults while they are released.
    pub(super) releasing: Vec<Fault>,
    /// Whether it also runs without `CAIP_FAULTS=all`.
    pub(super) runs_always: bool,
}

impl Case {
    fn new<const B: usize, const R: usize>(
        name: &'static str,
        source: Source,
        binding: [Fault; B],
        releasing: [Fault; R],
    ) -> Self {
        Self { name, source, binding: binding.into(), releasing: releasing.into(), runs_always: false }
    }

    fn always(self) -> Self {
        Self { runs_always: true, ..self }
    }

    pub(super) async fn pool(&self, ns: &Namespace) -> PoolBuilder {
        match self.source {
            Source::New => pool("public").network("public-large"),
            Source::Spare => pool("public").network("public-large").min_free(CLAIMS as u32),
            Source::Predefined => {
                let mut listed = Vec::new();
                for _ in 0..CLAIMS {
                    listed.push(ns.create_floating_ip("public-large").await.address);
                }
                pool("public").list(listed)
            }
        }
    }
}

fn server_error(call: &'static str) -> Fault {
    Fault::refusal(call, 500, "HTTPInternalServerError")
}

/// The slowest cases first: the outcome of a lost call is settled after a minute.
pub(super) fn cases(elsewhere: &str) -> Vec<Case> {
    [lost_answers(), lost_calls(), redirects(elsewhere), refused_tokens(), refusals(), failing_marks()]
        .into_iter()
        .flatten()
        .collect()
}

fn lost_calls() -> Vec<Case> {
    vec![
        Case::new(
            "the call that creates does not arrive",
            Source::New,
            [
                Fault::reset(CREATE).once(),
                server_error(CREATE).once(),
                Fault::page(CREATE, 502).once(),
                Fault::page(CREATE, 503).once(),
                Fault::page(CREATE, 504).once(),
            ],
            [],
        ),
        Case::new(
            "the call that releases does not arrive",
            Source::New,
            [],
            [
                server_error(TAG).once(),
                Fault::page(TAG, 503).once(),
                Fault::reset(DELETE).once(),
                server_error(DELETE).once(),
                Fault::page(DELETE, 504).once(),
            ],
        ),
        Case::new(
            "everything fails for some seconds",
            Source::New,
            [Fault::page(EVERYTHING, 503).times(7)],
            [Fault::reset(EVERYTHING).times(7)],
        ),
        Case::new(
            "slow answers",
            Source::New,
            [Fault::delay(CREATE, Duration::from_secs(3)).times(CLAIMS)],
            [Fault::delay(NEUTRON, Duration::from_secs(3)).times(10)],
        ),
    ]
}

fn lost_answers() -> Vec<Case> {
    vec![
        Case::new(
            "the work is done and the answer is lost",
            Source::New,
            [
                Fault::reset(CREATE).done().once(),
                Fault::page(CREATE, 502).done().once(),
                Fault::page(CREATE, 504).done().once(),
                server_error(CREATE).done().once(),
                Fault::truncated(CREATE).once(),
                Fault::says(CREATE, 201, "{}").done().once(),
                Fault::page(CREATE, 200).done().once(),
            ],
            [
                Fault::reset(TAG).done().once(),
                Fault::page(TAG, 504).done().once(),
                Fault::reset(DELETE).done().once(),
                Fault::page(DELETE, 502).done().once(),
                server_error(DELETE).done().once(),
            ],
        )
        .always(),
        Case::new(
            "the work is done and there is never an answer",
            Source::New,
            [Fault::silence(CREATE).done().times(2)],
            [Fault::silence(DELETE).done().once()],
        ),
        Case::new(
            "listings that cannot be read",
            Source::Predefined,
            [
                Fault::truncated(LIST).once(),
                Fault::says(LIST, 200, "{}").once(),
                Fault::says(LIST, 200, "[]").once(),
                Fault::page(LIST, 200).once(),
                Fault::page(LIST, 404).once(),
                Fault::reset(LIST).once(),
            ],
            [],
        ),
    ]
}

fn refused_tokens() -> Vec<Case> {
    vec![
        Case::new(
            "new tokens are refused too, and Keystone fails",
            Source::New,
            // More than in the 5 s in which a new token is not renewed.
            [Fault::unauthorized(NEUTRON).times(30), Fault::page(TOKEN, 503).once(), Fault::reset(TOKEN).once()],
            [],
        ),
        Case::new(
            "tokens expire during a burst",
            Source::New,
            [Fault::unauthorized(CREATE).times(3)],
            [Fault::unauthorized(DELETE).times(3)],
        ),
    ]
}

fn redirects(elsewhere: &str) -> Vec<Case> {
    vec![
        Case::new(
            "redirects of calls that create",
            Source::New,
            [Fault::redirect(CREATE, 307, elsewhere).once(), Fault::redirect(CREATE, 302, elsewhere).once()],
            [],
        )
        .always(),
        Case::new(
            "redirects of calls that release, and of Keystone",
            Source::New,
            [Fault::unauthorized(NEUTRON).times(30), Fault::redirect(TOKEN, 308, elsewhere).once()],
            [Fault::redirect(DELETE, 301, elsewhere).once(), Fault::redirect(TAG, 307, elsewhere).once()],
        ),
    ]
}

fn refusals() -> Vec<Case> {
    vec![
        Case::new(
            "too many requests, with Retry-After",
            Source::New,
            [Fault::limit(NEUTRON, Some(2)).times(3), Fault::limit(NEUTRON, Some(7)).once()],
            [Fault::limit(NEUTRON, Some(2)).times(3)],
        ),
        Case::new(
            "too many requests, without Retry-After",
            Source::New,
            [Fault::limit(NEUTRON, None).times(12)],
            [Fault::limit(NEUTRON, None).times(12)],
        ),
        Case::new(
            "refusals of each kind",
            Source::New,
            [
                Fault::refusal(CREATE, 409, "OverQuota").once(),
                Fault::refusal(CREATE, 409, "IpAddressGenerationFailure").once(),
                Fault::refusal(CREATE, 400, "ExternalIpAddressExhausted").once(),
                Fault::refusal(CREATE, 409, "IpAddressAlreadyAllocated").times(2),
            ],
            [
                Fault::refusal(TAG, 409, "Conflict").once(),
                Fault::refusal(DELETE, 409, "FloatingIPInUse").times(2),
                Fault::refusal(DELETE, 412, "RevisionNumberConstraintFailed").once(),
            ],
        )
        .always(),
    ]
}

fn failing_marks() -> Vec<Case> {
    vec![
        Case::new(
            "tags fail",
            Source::Predefined,
            [
                Fault::reset(TAG).done().once(),
                server_error(TAG).once(),
                Fault::page(TAG, 502).once(),
                Fault::page(TAG, 504).done().once(),
                Fault::refusal(TAG, 409, "Conflict").once(),
                Fault::limit(TAG, None).once(),
            ],
            [Fault::reset("DELETE floatingips/ID/tags/TAG").done().once()],
        ),
        Case::new(
            "descriptions fail",
            Source::Spare,
            [
                Fault::reset(DESCRIBE).done().once(),
                Fault::page(DESCRIBE, 504).done().once(),
                Fault::page(DESCRIBE, 502).once(),
                server_error(DESCRIBE).once(),
                Fault::refusal(DESCRIBE, 409, "Conflict").once(),
                Fault::refusal(DESCRIBE, 412, "RevisionNumberConstraintFailed").once(),
            ],
            [],
        ),
    ]
}
