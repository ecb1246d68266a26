//! What a hostile server does with each request: the answer that would be right, made wrong by its kind of attack.
//!
//! By a seeded random choice. Most tokens, networks and extensions are right, so that the later calls come too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::answers::{Place, token};
use super::victim::Victim;
use super::wire::{Answer, Request, Response, Step};
use super::{bodies, fields, headers, statuses, tokens};
use crate::support::openstack_proxy::call_name;

/// In bytes: the program's HTTP client reads at most 16 KiB of headers, with their names.
pub(super) const LONGEST_HEADERS: usize = 15_000;

/// How a tenant's servers lie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub enum Attack {
    /// All is right, but of the honest tenant: its project, ids, addresses and marks.
    Copies,
    /// Fields that are absent, null, of another type, too long, negative, of another time.
    Fields,
    /// Every status, in OpenStack's form and in others, with every `Retry-After`.
    Statuses,
    /// Redirects, wrong lengths and chunks, too many headers, headers without an end.
    Headers,
    /// Connections that are closed, reset or not answered, and bodies that come byte by byte.
    Slow,
    /// Answers just below the limit that stop before their last byte.
    Stalled,
    /// Bodies, listings and headers without an end.
    Endless,
    /// Listings that take all the memory that a namespace may have.
    Full,
    /// Tokens that are long, have expired, never do, or are refused by Neutron; long catalogues.
    Tokens,
    /// Any of these for each request.
    Mixed,
}

impl Attack {
    pub const ALL: [Self; 10] = [
        Self::Copies,
        Self::Fields,
        Self::Statuses,
        Self::Headers,
        Self::Slow,
        Self::Stalled,
        Self::Endless,
        Self::Full,
        Self::Tokens,
        Self::Mixed,
    ];
}

pub(super) struct Liar {
    attack: Attack,
    url: String,
    victim: Arc<Victim>,
    // Plain mutexes: held for one access, never across an await.
    random: Mutex<fastrand::Rng>,
    calls: Mutex<BTreeMap<String, usize>>,
}

impl Liar {
    pub(super) fn new(attack: Attack, url: String, victim: Arc<Victim>, seed: u64) -> Self {
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        Self { attack, url, victim, random, calls: Mutex::default() }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// How often each kind of call came.
    pub(super) fn calls(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.calls.lock().expect("no code panics while it holds the calls")
    }

    fn random(&self) -> fastrand::Rng {
        self.random.lock().expect("no code panics while it holds the generator").fork()
    }

    /// What happens to a new connection; none if its requests are read.
    pub(super) fn greet(&self) -> Option<Answer> {
        let random = &mut self.random();
        let is_slow = matches!(self.attack, Attack::Slow | Attack::Mixed);
        match random.u8(0..20) {
            0 if is_slow => Some(Answer::none(false)),
            1 if is_slow => Some(Answer::none(true)),
            2 if is_slow => Some(Answer::broken([Step::Hold])),
            _ => None,
        }
    }

    pub(super) fn answer(&self, request: &Request) -> Answer {
        let random = &mut self.random();
        let path = request.path.strip_prefix('/').unwrap_or_default();
        let (name, path) = path.split_once('/').unwrap_or((path, ""));
        let path = path.split('?').next().unwrap_or_default();
        *self.calls().entry(call_name(&request.method, &format!("/{path}"))).or_default() += 1;
        let place = Place { name, url: &self.url, victim: &self.victim };
        let right = place.answer(request, random);
        let attack = match self.attack {
            Attack::Mixed => random.choice(Attack::ALL).unwrap_or(Attack::Copies),
            one => one,
        };
        let is_first = ["auth/tokens", "extensions", "networks", "subnets"].iter().any(|end| path.ends_with(end));
        let is_lie = random.u8(0..4) < if is_first { 1 } else { 3 };
        match attack {
            Attack::Tokens => tokens::answer(request, right, &place, random),
            Attack::Full => bodies::full(request, right, &place, random),
            Attack::Copies => self.copy(right, &place, path),
            _ if !is_lie => right.whole(),
            Attack::Fields => fields::answer(&place, right, random),
            Attack::Statuses => statuses::answer(right, random),
            Attack::Headers => headers::answer(right, &self.victim.neutron, random),
            Attack::Slow => bodies::slow(right, random),
            Attack::Stalled => bodies::stalled(request, right, random),
            Attack::Endless => bodies::endless(request, right, &place, random),
            Attack::Mixed => right.whole(),
        }
    }

    /// One Secret's catalogue names the real Neutron, as if it were this tenant's.
    fn copy(&self, right: Response, place: &Place<'_>, path: &str) -> Answer {
        match path.ends_with("auth/tokens") && place.name.ends_with('6') {
            true => token(place.token(&self.victim.neutron), "copied".into()).whole(),
            false => right.whole(),
        }
    }
}
