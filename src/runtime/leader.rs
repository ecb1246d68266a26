//! Leader election by a `coordination.k8s.io/v1` Lease, as client-go does it, so that Go programs can share one.
//!
//! Ours, since no maintained crate fits kube 5: kube-leader-election 0.44 and kubert 0.25 are built on older ones, and
//! would bring a second Kubernetes client into the process.
//!
//! **Guaranteed:** every write names the version that it was decided on, so of two candidates one wins. A leader is told
//! that it lost before anybody else can lead, as long as clocks *run* equally fast (what they show does not matter) and
//! the renew deadline is shorter than the lease.
//! **Assumed:** what a leader does on losing is to end. A request that it has sent by then may still arrive later; that
//! is what [`Leader::was_vacant`] is for.
//! **Not seen:** a lease that somebody deleted under a living leader looks like one that never was.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::telemetry::chain;
use crate::clock::Clock;

mod record;
#[cfg(test)]
mod tests;

use record::{Observed, Step, decide, held, holder, vacant};

/// Client-go's factor: a candidate tries again after one to two and a bit retry periods, so that they do not meet.
const JITTER: f64 = 1.2;

/// Which lease, for whom, and how patiently. The deadline is shorter than the duration, the period than the deadline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseSettings {
    /// The namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are; different for every process.
    pub identity: String,
    /// How long others wait for a leader that went silent.
    pub duration: Duration,
    /// How long a leader goes on trying to renew.
    pub renew_deadline: Duration,
    /// How long between two tries.
    pub retry_period: Duration,
}

/// How leadership was lost.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Lost {
    /// Somebody else holds the lease.
    #[error("the lease was taken by {0}")]
    TakenBy(String),
    /// Nobody holds it: somebody deleted or emptied it.
    #[error("the lease was deleted or emptied")]
    Vacated,
    /// It could not be renewed in time.
    #[error("the lease could not be renewed within {0:?}")]
    NotRenewed(Duration),
}

/// The lease is held, and renewed until this is released or dropped.
pub struct Leader {
    candidate: Candidate,
    was_vacant: bool,
    lost: watch::Receiver<Option<Lost>>,
    // Aborted on drop, so that a leader that is forgotten does not go on leading.
    renewal: JoinSet<()>,
}

impl Leader {
    /// Waits until it leads. Whatever fails on the way is logged and tried again: permissions, too, may come later.
    pub async fn acquire(client: kube::Client, settings: LeaseSettings, clock: &Clock) -> Self {
        let leases = Api::namespaced(client, &settings.namespace);
        let mut candidate =
            Candidate { leases, settings, clock: clock.clone(), observed: None, tried_as_vacant: false };
        let (lease, was_vacant, since) = candidate.wait_for_turn().await;
        let (sender, lost) = watch::channel(None);
        let mut renewal = JoinSet::new();
        let mut keeper = candidate.clone();
        renewal.spawn(async move {
            let how = keeper.keep(lease, since).await;
            sender.send_replace(Some(how));
        });
        Self { candidate, was_vacant, lost, renewal }
    }

    /// Whether the previous holder had given the lease back, or there never was one: nobody's requests are under way.
    pub fn was_vacant(&self) -> bool {
        self.was_vacant
    }

    /// Resolves once this no longer leads.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        let mut lost = self.lost.clone();
        async move {
            match lost.wait_for(Option::is_some).await.map(|how| how.clone()) {
                Ok(Some(how)) => how,
                // Released: nothing is lost that was given away.
                _ => std::future::pending().await,
            }
        }
    }

    /// Gives the lease back, so that the next one need not wait. Only once nothing that was begun is under way.
    pub async fn release(mut self) -> Result<(), kube::Error> {
        self.renewal.shutdown().await;
        self.candidate.give_back().await
    }
}

#[derive(Clone)]
struct Candidate {
    leases: Api<Lease>,
    settings: LeaseSettings,
    clock: Clock,
    observed: Option<Observed>,
    // How the lease was found when it was last tried for: the reply may be lost, and the next look finds us as holder.
    tried_as_vacant: bool,
}

impl Candidate {
    async fn wait_for_turn(&mut self) -> (Lease, bool, Instant) {
        let LeaseSettings { namespace, name, identity, .. } = self.settings.clone();
        tracing::info!(lease = %format_args!("{namespace}/{name}"), identity, "waiting to lead");
        let mut said = String::new();
        loop {
            let begin = Instant::now();
            let now_said = match timeout(self.patience(), self.attempt()).await {
                Ok(Ok(Some(lease))) => {
                    tracing::info!(was_vacant = self.tried_as_vacant, "leading");
                    return (lease, self.tried_as_vacant, begin);
                }
                Ok(Ok(None)) => self.observed.as_ref().and_then(|it| holder(&it.spec)).unwrap_or_default().to_owned(),
                Ok(Err(error)) => chain(&error),
                Err(_) => "no answer in time".into(),
            };
            if now_said != said {
                tracing::info!(lease = %format_args!("{namespace}/{name}"), because = now_said, "not leading yet");
                said = now_said;
            }
            sleep(self.clock.jitter(self.settings.retry_period, JITTER)).await;
        }
    }

    /// One try to become the leader; `None` when it is not our turn.
    async fn attempt(&mut self) -> Result<Option<Lease>, kube::Error> {
        let lease = self.leases.get_opt(&self.settings.name).await?;
        let now = Instant::now();
        let spec = lease.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        self.observed = spec.map(|spec| Observed::look(self.observed.take(), &spec, now));
        match decide(self.observed.as_ref(), now, &self.settings.identity, self.settings.duration) {
            Step::Wait(_) => return Ok(None),
            Step::Keep => {}
            Step::Take { was_vacant } => self.tried_as_vacant = was_vacant,
        }
        let result = match lease {
            Some(lease) => self.hold(&lease).await,
            None => self.leases.create(&PostParams::default(), &self.held_by_me(&self.empty())).await,
        };
        match result {
            // Somebody was faster.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(None),
            result => result.map(Some),
        }
    }

    /// Renews until that is no longer possible, and says why.
    async fn keep(&mut self, mut lease: Lease, since: Instant) -> Lost {
        let deadline = self.settings.renew_deadline;
        let mut renewed_at = since;
        loop {
            let end = renewed_at + deadline;
            sleep_until(end.min(Instant::now() + self.settings.retry_period)).await;
            let begin = Instant::now();
            if begin >= end {
                return Lost::NotRenewed(deadline);
            }
            match timeout(self.patience().min(end - begin), self.renew(&mut lease)).await {
                // From the begin: the others count from when they see it, which is not before.
                Ok(Ok(None)) => renewed_at = begin,
                Ok(Ok(Some(lost))) => return lost,
                Ok(Err(error)) => tracing::warn!(error = chain(&error), "lease not renewed"),
                Err(_) => tracing::warn!("lease not renewed: no answer in time"),
            }
        }
    }

    /// One renewal. When the version that we know is refused, or the reply got lost, the lease is read again.
    async fn renew(&self, lease: &mut Lease) -> Result<Option<Lost>, kube::Error> {
        if let Ok(renewed) = self.hold(lease).await {
            *lease = renewed;
            return Ok(None);
        }
        let Some(found) = self.leases.get_opt(&self.settings.name).await? else { return Ok(Some(Lost::Vacated)) };
        match found.spec.as_ref().and_then(holder) {
            Some(holder) if holder == self.settings.identity => *lease = self.hold(&found).await?,
            Some(holder) => return Ok(Some(Lost::TakenBy(holder.to_owned()))),
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
            lease.spec = Some(vacant(&spec, self.now()));
            match self.leases.replace(&self.settings.name, &PostParams::default(), &lease).await {
                // A renewal that was cut off landed in between; it can do so once, since none is begun any more.
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                result => return result.map(drop),
            }
        }
    }

    /// Writes us into `lease`, if it still is as we know it: its `resourceVersion` is in it.
    async fn hold(&self, lease: &Lease) -> Result<Lease, kube::Error> {
        self.leases.replace(&self.settings.name, &PostParams::default(), &self.held_by_me(lease)).await
    }

    fn held_by_me(&self, lease: &Lease) -> Lease {
        let before = lease.spec.clone().unwrap_or_default();
        let spec = held(&before, &self.settings.identity, self.settings.duration, self.now());
        Lease { spec: Some(spec), ..lease.clone() }
    }

    fn empty(&self) -> Lease {
        let LeaseSettings { namespace, name, .. } = self.settings.clone();
        Lease {
            metadata: ObjectMeta { namespace: Some(namespace), name: Some(name), ..ObjectMeta::default() },
            spec: None,
        }
    }

    /// How long one try may take: client-go's half of the deadline, so that there is time for a second one.
    fn patience(&self) -> Duration {
        self.settings.renew_deadline / 2
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// The name of this process among all that ever compete: the host's, and something random.
pub fn identity(clock: &Clock) -> String {
    let from_kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = std::env::var("HOSTNAME").ok().or_else(from_kernel).unwrap_or_default();
    format!("{}_{}", host.trim(), clock.random_name(10))
}

/// Where the lease is when nobody said where: in the namespace of this pod, else in that of the kubeconfig.
pub fn own_namespace(client: &kube::Client) -> String {
    let from_variable = std::env::var("POD_NAMESPACE").ok();
    let from_pod = || std::fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace").ok();
    let named = from_variable.or_else(from_pod).map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    named.unwrap_or_else(|| client.default_namespace().to_owned())
}
