//! Leader election with a `coordination.k8s.io/v1` Lease. It follows client-go's protocol, so Go programs can compete for
//! the same Lease. docs/dependencies.md says why no crate is used.
//!
//! **Guaranteed:** every write carries the resource version that it is based on, so only one of two candidates succeeds.
//! A leader learns that it lost the Lease before another candidate can acquire it, provided that clocks run at the same
//! rate (their absolute times do not matter) and the renew deadline is shorter than the lease duration.
//! **Assumed:** the process exits when it loses the Lease. A request that it has already sent may still arrive later;
//! [`Leader::was_vacant`] tells the next leader whether to expect one.
//! **Restored from a backup:** the Lease may have an older record, with another holder or none. A leader that finds no
//! holder in an older one keeps it. A candidate that saw the later record waits as for a holder that does not renew.
//! **Deleted:** a candidate waits for the holder that it saw last as for one that does not renew. The holder notices the
//! deletion at its next renewal, and goes on until then.
//! **Not detected:** to a process that starts afterwards, a Lease that was deleted, or restored without a holder, looks like
//! one that never existed.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ObjectMeta, PostParams};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::flags::VERSION;
use super::telemetry::chain;
use crate::clock::Clock;
use crate::clock::instant_after;

mod record;
#[cfg(test)]
mod tests;

use record::{LeaseAction, ObservedLease, decide, held, holder, vacant, went_back};

/// client-go's factor: candidates retry after 1 to 2.2 retry periods, so that they do not collide.
const JITTER: f64 = 1.2;

/// On the Lease: the version of its holder, for tools such as `kubectl fippool version`.
pub const VERSION_ANNOTATION: &str = "openstackfloatingippool.ipam.cluster.x-k8s.io/controller-version";

/// Must satisfy `retry_period < renew_deadline < duration`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseSettings {
    pub namespace: String,
    pub name: String,
    /// Unique for each process.
    pub identity: String,
    /// Time that other candidates wait after the last renewal.
    pub duration: Duration,
    /// Time that the leader retries a failed renewal before it gives up.
    pub renew_deadline: Duration,
    /// Interval between attempts to acquire or renew.
    pub retry_period: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Lost {
    #[error("the Lease was taken by {0}")]
    TakenBy(String),
    #[error("the Lease was deleted or emptied")]
    Vacated,
    #[error("the Lease could not be renewed within {0:?}")]
    NotRenewed(Duration),
}

/// Holds the Lease and renews it until released or dropped.
pub struct Leader {
    candidate: Candidate,
    was_vacant: bool,
    lost: watch::Receiver<Option<Lost>>,
    /// The time by which the Lease has to be renewed.
    deadline: Arc<Mutex<Instant>>,
    // A set, because it aborts its task on drop: a dropped leader stops renewing.
    renewal: JoinSet<()>,
}

impl Leader {
    /// Waits until the Lease is acquired. Failures are logged and retried, missing permissions too.
    pub async fn acquire(client: kube::Client, settings: LeaseSettings, clock: &Clock) -> Self {
        let leases = Api::namespaced(client, &settings.namespace);
        let mut candidate = Candidate { leases, settings, clock: clock.clone(), observed: None, was_vacant: false };
        let (lease, acquired_at) = candidate.acquire().await;
        let was_vacant = candidate.was_vacant;
        let (sender, lost) = watch::channel(None);
        let mut renewal = JoinSet::new();
        let mut keeper = candidate.clone();
        let deadline = Arc::new(Mutex::new(instant_after(acquired_at, candidate.settings.renew_deadline)));
        let renewed = deadline.clone();
        renewal.spawn(async move {
            let reason = keeper.keep_renewing(lease, &renewed).await;
            sender.send_replace(Some(reason));
        });
        Self { candidate, was_vacant, lost, deadline, renewal }
    }

    /// Whether the previous holder had given the Lease back, or there was none: no predecessor's request is in flight.
    pub fn was_vacant(&self) -> bool {
        self.was_vacant
    }

    /// Resolves when leadership is lost; never after [`Self::release`].
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        let mut lost = self.lost.clone();
        async move {
            match lost.wait_for(Option::is_some).await.map(|reason| reason.clone()) {
                Ok(Some(reason)) => reason,
                _ => std::future::pending().await,
            }
        }
    }

    fn is_overdue(&self) -> bool {
        Instant::now() >= *self.deadline.lock()
    }

    /// Gives the Lease back, so that the next candidate need not wait. To be called when no work is in progress any more.
    pub async fn release(mut self) -> Result<(), kube::Error> {
        self.renewal.shutdown().await;
        self.candidate.give_back().await
    }
}

/// Whether a previous process may still have calls under way. Without leader election it is unknown whether there was one.
pub fn may_have_predecessor(leader: Option<&Leader>) -> bool {
    leader.is_none_or(|leader| !leader.was_vacant())
}

/// Runs `work` until it ends or leadership is lost; without a leader, until it ends.
///
/// The clock is read before each step of the work: a process that stood still for a while (SIGSTOP, a virtual machine that
/// was paused) would otherwise go on with whatever is ready, and send a call that the next leader does not expect.
pub async fn while_leading<T>(leader: Option<&Leader>, work: impl Future<Output = T>) -> Result<T, Lost> {
    let Some(leader) = leader else { return Ok(work.await) };
    let (mut lost, mut work) = (pin!(leader.lost()), pin!(work));
    poll_fn(|context| {
        if let Poll::Ready(reason) = lost.as_mut().poll(context) {
            return Poll::Ready(Err(reason));
        }
        if leader.is_overdue() {
            return Poll::Ready(Err(Lost::NotRenewed(leader.candidate.settings.renew_deadline)));
        }
        work.as_mut().poll(context).map(Ok)
    })
    .await
}

#[derive(Clone)]
struct Candidate {
    leases: Api<Lease>,
    settings: LeaseSettings,
    clock: Clock,
    observed: Option<ObservedLease>,
    // Of the latest attempt to acquire the Lease. Kept, because the attempt's response may be lost, and then the next
    // attempt finds this candidate as the holder.
    was_vacant: bool,
}

impl Candidate {
    /// Returns the Lease, and when the successful attempt began.
    async fn acquire(&mut self) -> (Lease, Instant) {
        let LeaseSettings { namespace, name, identity, .. } = self.settings.clone();
        tracing::info!(lease = %format_args!("{namespace}/{name}"), identity, "waiting to lead");
        let mut logged = String::new();
        loop {
            let begin = Instant::now();
            let reason = match timeout(self.request_timeout(), self.try_acquire()).await {
                Ok(Ok(Some(lease))) => {
                    tracing::info!(was_vacant = self.was_vacant, "leading");
                    return (lease, begin);
                }
                Ok(Ok(None)) => {
                    self.observed.as_ref().and_then(|lease| holder(&lease.spec)).unwrap_or_default().to_owned()
                }
                Ok(Err(error)) => chain(&error),
                Err(_) => "no answer in time".into(),
            };
            if reason != logged {
                tracing::info!(lease = %format_args!("{namespace}/{name}"), reason, "not leading yet");
                logged = reason;
            }
            sleep(self.clock.jitter(self.settings.retry_period, JITTER)).await;
        }
    }

    /// `None` if another candidate holds the Lease.
    async fn try_acquire(&mut self) -> Result<Option<Lease>, kube::Error> {
        let lease = self.leases.get_opt(&self.settings.name).await?;
        let now = Instant::now();
        if let Some(lease) = &lease {
            self.observed = Some(ObservedLease::observe(self.observed.take(), lease, now));
        }
        match decide(self.observed.as_ref(), now, &self.settings.identity, self.settings.duration) {
            LeaseAction::Wait(_) => return Ok(None),
            LeaseAction::Keep => {}
            LeaseAction::Acquire { was_vacant } => self.was_vacant = was_vacant,
        }
        let result = match lease {
            Some(lease) => self.write_as_holder(&lease).await,
            None => self.leases.create(&PostParams::default(), &self.held_by_me(&self.new_lease())).await,
        };
        match result {
            // Another candidate was faster.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(None),
            result => result.map(Some),
        }
    }

    /// Renews until leadership is lost.
    async fn keep_renewing(&mut self, mut lease: Lease, deadline: &Mutex<Instant>) -> Lost {
        loop {
            let end = *deadline.lock();
            sleep_until(end.min(instant_after(Instant::now(), self.settings.retry_period))).await;
            let begin = Instant::now();
            if begin >= end {
                return Lost::NotRenewed(self.settings.renew_deadline);
            }
            match timeout(self.request_timeout().min(end.duration_since(begin)), self.renew(&mut lease)).await {
                // Other candidates see the renewal after `begin`, so their waiting time ends after ours.
                Ok(Ok(None)) => *deadline.lock() = instant_after(begin, self.settings.renew_deadline),
                Ok(Ok(Some(lost))) => return lost,
                Ok(Err(error)) => tracing::warn!(error = chain(&error), "Lease not renewed"),
                Err(_) => tracing::warn!("Lease not renewed: no answer in time"),
            }
        }
    }

    /// If the write fails, the Lease is read again: its version may be newer, or the response may have been lost.
    async fn renew(&self, lease: &mut Lease) -> Result<Option<Lost>, kube::Error> {
        if let Ok(renewed) = self.write_as_holder(lease).await {
            *lease = renewed;
            return Ok(None);
        }
        let Some(found) = self.leases.get_opt(&self.settings.name).await? else { return Ok(Some(Lost::Vacated)) };
        match found.spec.as_ref().and_then(holder) {
            Some(holder) if holder == self.settings.identity => *lease = self.write_as_holder(&found).await?,
            Some(holder) => return Ok(Some(Lost::TakenBy(holder.to_owned()))),
            None if went_back(lease, &found) => *lease = self.write_as_holder(&found).await?,
            None => return Ok(Some(Lost::Vacated)),
        }
        Ok(None)
    }

    async fn give_back(&self) -> Result<(), kube::Error> {
        loop {
            let Some(mut lease) = self.leases.get_opt(&self.settings.name).await? else { return Ok(()) };
            let spec = lease.spec.take().unwrap_or_default();
            if holder(&spec) != Some(&self.settings.identity) {
                return Ok(());
            }
            lease.spec = Some(vacant(&spec, self.clock.now()));
            match self.leases.replace(&self.settings.name, &PostParams::default(), &lease).await {
                // A cancelled renewal arrived in between. That happens at most once: no renewal is running any more.
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                result => return result.map(drop),
            }
        }
    }

    /// Fails with a conflict if `lease` has changed: it contains the `resourceVersion`.
    async fn write_as_holder(&self, lease: &Lease) -> Result<Lease, kube::Error> {
        self.leases.replace(&self.settings.name, &PostParams::default(), &self.held_by_me(lease)).await
    }

    fn held_by_me(&self, lease: &Lease) -> Lease {
        let before = lease.spec.clone().unwrap_or_default();
        let spec = held(&before, &self.settings.identity, self.settings.duration, self.clock.now());
        let mut lease = Lease { spec: Some(spec), ..lease.clone() };
        lease.metadata.annotations.get_or_insert_default().insert(VERSION_ANNOTATION.into(), VERSION.clone());
        lease
    }

    fn new_lease(&self) -> Lease {
        let LeaseSettings { namespace, name, .. } = self.settings.clone();
        Lease {
            metadata: ObjectMeta { namespace: Some(namespace), name: Some(name), ..ObjectMeta::default() },
            spec: None,
        }
    }

    /// Half of the deadline, as in client-go, so that there is time for a second attempt.
    #[expect(clippy::arithmetic_side_effects, reason = "2 is not 0")]
    fn request_timeout(&self) -> Duration {
        self.settings.renew_deadline / 2
    }
}

/// The host name and a random suffix, so that every process has its own.
pub fn identity(clock: &Clock) -> String {
    let from_kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = std::env::var("HOSTNAME").ok().or_else(from_kernel).unwrap_or_default();
    format!("{}_{}", host.trim(), clock.random_name(10))
}

/// The namespace of this pod, or else that of the kubeconfig.
pub fn own_namespace(client: &kube::Client) -> String {
    let from_variable = std::env::var("POD_NAMESPACE").ok();
    let from_pod = || std::fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace").ok();
    let own = from_variable.or_else(from_pod).map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    own.unwrap_or_else(|| client.default_namespace().to_owned())
}
