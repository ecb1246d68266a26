//! One project's ledger, shared by all its pools, and the one listing at a time that keeps it up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{MappedRwLockReadGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use tokio::time::{Instant, sleep};

use crate::allocation::Ledger;
use crate::allocation::ledger::{CallStart, Sequence, Viewer};
use crate::clock::Clock;
use crate::clock::instant_after;
use crate::floating_ip::FloatingIp;
use crate::openstack::credentials::Fingerprint;
use crate::openstack::{Error, ProjectKey, ProjectScope};

mod memory;
mod quota;
mod registry;
mod viewers;

use memory::{MemoryLimit, MemoryLimits, MemoryUse};
use quota::QuotaCache;
use registry::Registry;
use viewers::ViewerRegistry;

/// How long a listing waits for tags that are being written, so that it confirms many.
const GATHER: Duration = Duration::from_millis(400);

/// One project of one cloud.
#[derive(Default)]
pub(super) struct Project {
    // Held for decisions, never for calls.
    ledger: Mutex<Ledger>,
    // tokio's mutex: held during a listing, so that all waiting callers share the next one.
    listing: tokio::sync::Mutex<()>,
    failed: Mutex<Option<FailedListing>>,
    tagging: Mutex<usize>,
    /// The ledger's memory. It is charged to the namespace whose pool listed the project last.
    memory_use: Mutex<Option<MemoryUse>>,
    namespaces: RwLock<Namespaces>,
    viewers: ViewerRegistry,
    /// The quota of floating IPs.
    pub(super) quota: QuotaCache,
}

/// Its error is one for all callers with this access that waited for it.
struct FailedListing {
    began: Sequence,
    access: Access,
    error: Error,
}

/// With what a project is listed. Another namespace has memory of its own, other credentials may work where these do not, and
/// so may another URL of Neutron.
#[derive(Clone, PartialEq, Eq)]
struct Access {
    namespace: String,
    credentials: Fingerprint,
    endpoint: String,
}

/// The namespaces with a pool of the project, and how many resolutions each has.
#[derive(Default)]
struct Namespaces {
    all: BTreeSet<String>,
    counts: BTreeMap<String, usize>,
}

/// A pool's part in its project. A pool that works proves access to the project. While there is one in a namespace, what
/// Kubernetes names there counts for all pools of the project.
pub(super) struct ProjectHandle {
    project: Arc<Project>,
    access: Access,
    viewer: Viewer,
    memory_limit: Arc<MemoryLimit>,
}

impl ProjectHandle {
    #[expect(clippy::arithmetic_side_effects, reason = "it counts what is in memory")]
    fn join(project: Arc<Project>, access: Access, memory_limit: Arc<MemoryLimit>) -> Self {
        let mut namespaces = project.namespaces.write();
        namespaces.all.insert(access.namespace.clone());
        *namespaces.counts.entry(access.namespace.clone()).or_default() += 1;
        drop(namespaces);
        let viewer = project.viewers.join(access.credentials);
        Self { project, access, viewer, memory_limit }
    }

    /// A call with the pool's credentials begins.
    pub(super) fn begin_call(&self, now: Timestamp) -> CallStart {
        self.ledger().begin_as(self.viewer, now)
    }

    /// Whose credentials the pool has.
    pub(super) fn viewer(&self) -> Viewer {
        self.viewer
    }

    fn is_listed_since(&self, after: Sequence) -> bool {
        self.ledger().listing_began(self.viewer).is_some_and(|began| began.sequence >= after)
    }

    /// Makes sure that the ledger has a listing with the pool's credentials that began at `after` or later. Callers at the
    /// same time share one; `list` is for this caller's.
    pub(super) async fn refresh(
        &self,
        list: impl Future<Output = Result<Vec<FloatingIp>, Error>>,
        clock: &Clock,
        after: Sequence,
    ) -> Result<(), Error> {
        if self.is_listed_since(after) {
            return Ok(());
        }
        let _turn = self.listing.lock().await;
        if self.is_listed_since(after) {
            return Ok(());
        }
        if let Some(failed) = &*self.failed.lock()
            && failed.began >= after
            && failed.access == self.access
        {
            return Err(failed.error.clone());
        }
        self.await_tagging().await;
        let began = self.ledger().begin_listing(self.viewer, clock.now());
        let listed = list.await.and_then(|fips| {
            let size = fips.iter().map(FloatingIp::memory_size).fold(0, usize::saturating_add);
            let size = size.saturating_add(self.ledger().size_kept_beside(self.viewer, &fips));
            self.memory_limit.replace(&mut self.memory_use.lock(), size).map(|()| fips)
        });
        let fips = listed.inspect_err(|error| {
            self.ledger().note_failed_listing();
            let (access, error) = (self.access.clone(), error.clone());
            *self.failed.lock() = Some(FailedListing { began: began.sequence, access, error });
        })?;
        self.ledger().record_listing(began, fips, clock.now());
        Ok(())
    }

    pub(super) fn project(&self) -> &Arc<Project> {
        &self.project
    }

    pub(super) fn is_in_one_project_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.project, &other.project)
    }
}

impl Drop for ProjectHandle {
    fn drop(&mut self) {
        let mut namespaces = self.project.namespaces.write();
        let namespace = &self.access.namespace;
        let Some(count) = namespaces.counts.get_mut(namespace) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            namespaces.counts.remove(namespace);
            namespaces.all.remove(namespace);
        }
        let is_last = namespaces.all.is_empty();
        drop(namespaces);
        if let Some(viewer) = self.project.viewers.leave(&self.access.credentials) {
            self.project.ledger().forget_viewer(viewer);
        }
        if is_last {
            self.project.release_memory();
        }
    }
}

impl Deref for ProjectHandle {
    type Target = Project;

    fn deref(&self) -> &Project {
        &self.project
    }
}

impl Project {
    /// The namespaces with a pool of the project.
    pub(super) fn namespaces(&self) -> MappedRwLockReadGuard<'_, BTreeSet<String>> {
        RwLockReadGuard::map(self.namespaces.read(), |namespaces| &namespaces.all)
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    /// No pool uses the project. Its ledger may be kept for a while, since calls may land.
    fn release_memory(&self) {
        let mut ledger = self.ledger();
        if self.namespaces().is_empty() {
            ledger.forget_listing();
            *self.memory_use.lock() = None;
        }
    }

    /// Counts a tag that is being written, until the guard is dropped.
    #[expect(clippy::arithmetic_side_effects, reason = "it counts what is in memory")]
    pub(super) fn begin_tagging(&self) -> Tagging<'_> {
        *self.tagging.lock() += 1;
        Tagging(self)
    }

    pub(super) fn is_tagging(&self) -> bool {
        *self.tagging.lock() > 0
    }

    async fn await_tagging(&self) {
        let until = instant_after(Instant::now(), GATHER);
        while self.is_tagging() && Instant::now() < until {
            #[expect(clippy::arithmetic_side_effects, reason = "20 is not 0")]
            sleep(GATHER / 20).await;
        }
    }
}

pub(super) struct Tagging<'a>(&'a Project);

impl Drop for Tagging<'_> {
    #[expect(clippy::arithmetic_side_effects, reason = "its beginning was counted")]
    fn drop(&mut self) {
        *self.0.tagging.lock() -= 1;
    }
}

/// The projects that pools use.
pub(super) struct Projects {
    all: Registry<ProjectKey, Project>,
    memory_limits: MemoryLimits,
}

impl Projects {
    /// With memory for as many floating IPs in each namespace.
    pub(super) fn new(max_floating_ips: usize) -> Self {
        Self { all: Registry::default(), memory_limits: MemoryLimits::new(max_floating_ips) }
    }

    /// The project of a session with these credentials, for a pool of this namespace. All sessions in the project have the
    /// same one, whatever their credentials and Neutron's URL.
    pub(super) fn join(&self, scope: &ProjectScope, namespace: &str, credentials: Fingerprint) -> ProjectHandle {
        let project = self.all.get_or_create(scope.key(), |_| Project::default());
        let access = Access { namespace: namespace.to_owned(), credentials, endpoint: scope.endpoint.clone() };
        ProjectHandle::join(project, access, self.memory_limits.of(namespace))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use k8s_openapi::ByteString;
    use url::Url;

    use super::*;
    use crate::allocation::testing::fip;
    use crate::floating_ip::ProjectId;
    use crate::openstack::credentials::CLOUDS_YAML;
    use crate::openstack::{Credentials, ErrorKind, KeystoneId};

    fn scope() -> ProjectScope {
        let url = "https://keystone.example.com/v3/";
        ProjectScope {
            keystone: KeystoneId::new(&Url::parse(url).unwrap(), true, &[]),
            endpoint: "https://neutron.example.com/v2.0/".to_owned(),
            region: "RegionOne".to_owned(),
            project: ProjectId::new("p"),
        }
    }

    fn credentials(password: &str) -> Fingerprint {
        let cloud = "clouds: {c: {auth: {auth_url: 'https://k.example.com/', username: u, project_name: p, password: ";
        let yaml = ByteString(format!("{cloud}{password}}}}}}}").into_bytes());
        let credentials = Credentials::from_secret(&BTreeMap::from([(CLOUDS_YAML.to_owned(), yaml)]), "c", None);
        credentials.unwrap().fingerprint()
    }

    fn join(projects: &Projects, scope: &ProjectScope, namespace: &str) -> ProjectHandle {
        projects.join(scope, namespace, credentials("p"))
    }

    #[test]
    fn a_project_is_the_same_through_another_url_of_neutron() {
        let projects = Projects::new(10);
        let moved = ProjectScope { endpoint: "https://other.example.com/v2.0/".to_owned(), ..scope() };
        let elsewhere = ProjectScope { region: "RegionTwo".to_owned(), ..scope() };
        let [here, there, apart] = [scope(), moved, elsewhere].map(|scope| join(&projects, &scope, "team"));
        assert!(here.is_in_one_project_with(&there) && !here.is_in_one_project_with(&apart));
    }

    /// Its ledger is kept since calls may land.
    #[tokio::test]
    async fn a_project_without_pools_takes_no_memory_of_its_namespace() {
        let (clock, projects) = (Clock::system(), Projects::new(1));
        let elsewhere = ProjectScope { region: "RegionTwo".to_owned(), ..scope() };
        let list = async || Ok(vec![fip(10).described("x".repeat(700)).0]);
        let [first, second] = [scope(), elsewhere].map(|scope| join(&projects, &scope, "team"));
        let (kept, after) = (first.project().clone(), first.ledger().next_sequence());
        first.refresh(list(), &clock, after).await.expect("there is room for one");
        let after = second.ledger().next_sequence();
        second.refresh(list(), &clock, after).await.expect_err("there is no room for two");
        assert!(first.ledger().lists_quickly() && !second.ledger().lists_quickly());
        drop(first);
        let after = second.ledger().next_sequence();
        second.refresh(list(), &clock, after).await.expect("there is room again");
        assert!(kept.ledger().is_unlisted(Viewer::default()) && !second.ledger().is_unlisted(Viewer::default()));
        let again = join(&projects, &scope(), "team");
        assert!(again.ledger().is_unlisted(again.viewer()), "it is listed again before it is used");
    }

    /// For example a user without the right to list, a namespace that lists too much, or a URL at which nothing answers.
    #[tokio::test(start_paused = true)]
    async fn a_failed_listing_fails_its_namespace_with_its_url_alone() {
        let (clock, projects) = (Clock::system(), Projects::new(10));
        let [first, same, other] = ["a", "a", "b"].map(|namespace| join(&projects, &scope(), namespace));
        let url = "https://internal.example.com/v2.0/".to_owned();
        let through_another = join(&projects, &ProjectScope { endpoint: url, ..scope() }, "a");
        let (after, listings) = (first.ledger().next_sequence(), Cell::new(0));
        let list = async |result: Result<Vec<FloatingIp>, Error>| {
            listings.set(listings.get() + 1);
            sleep(Duration::from_secs(1)).await;
            result
        };
        let forbidden = || Err(Error::new(ErrorKind::Forbidden, "list floating IPs", "no"));
        let (failed, waited, apart, listed) = tokio::join!(
            first.refresh(list(forbidden()), &clock, after),
            same.refresh(list(Ok(Vec::new())), &clock, after),
            through_another.refresh(list(forbidden()), &clock, after),
            other.refresh(list(Ok(Vec::new())), &clock, after),
        );
        assert!(failed.is_err() && waited.is_err() && apart.is_err() && listed.is_ok());
        assert_eq!(listings.get(), 3, "each that shares no failure lists");
        first.refresh(pending(), &clock, after).await.expect("all share what is listed");
    }

    /// Neutron answers 200 with what a role may see, down to nothing.
    #[tokio::test]
    async fn credentials_that_see_less_hide_nothing_from_others() {
        let (clock, projects) = (Clock::system(), Projects::new(10));
        let [full, less] = ["full", "less"].map(|password| projects.join(&scope(), "team", credentials(password)));
        let list = async |handle: &ProjectHandle, last: &[u8]| {
            let fips = last.iter().map(|last| fip(*last).0).collect();
            let after = handle.ledger().next_sequence();
            handle.refresh(async { Ok(fips) }, &clock, after).await.expect("it is listed");
        };
        let known = || full.ledger().entries().count();
        list(&less, &[]).await;
        assert!(full.ledger().is_unlisted(full.viewer()), "it has not listed itself");
        list(&full, &[10, 11]).await;
        list(&less, &[]).await;
        let is_recent =
            |handle: &ProjectHandle| handle.ledger().is_listed_since(handle.viewer(), Timestamp::UNIX_EPOCH);
        assert_eq!((known(), is_recent(&full), is_recent(&less)), (2, true, true));
        list(&less, &[10, 11]).await;
        list(&less, &[10]).await;
        assert_eq!((known(), is_recent(&full)), (2, false), "it may see less than before: the other one lists again");
        list(&full, &[10]).await;
        assert_eq!(known(), 1, "none of them sees it any more");
        drop(full);
        list(&less, &[]).await;
        assert!(less.ledger().entries().next().is_none(), "no pool has the other credentials any more");
    }

    /// A tenant's cloud shows each of the tenant's users other floating IPs.
    #[tokio::test]
    async fn what_several_credentials_see_takes_no_more_memory_than_a_namespace_has() {
        let (clock, projects) = (Clock::system(), Projects::new(2));
        let list = async |password: &str, last: u8| {
            let handle = projects.join(&scope(), "team", credentials(password));
            let after = handle.ledger().next_sequence();
            let listed = async { Ok(vec![fip(last).described("x".repeat(700)).0]) };
            handle.refresh(listed, &clock, after).await.map(|()| handle)
        };
        let (_first, _second) = (list("one", 10).await.expect("it fits"), list("two", 11).await.expect("both fit"));
        assert!(list("three", 12).await.is_err(), "there is no room for three");
        list("four", 11).await.map(drop).expect("what is known takes no more");
    }

    /// The Secret of one pool has expired, and that of another one is good. The listing that fails waits for tags of the other
    /// pool, whose callers come meanwhile.
    #[tokio::test(start_paused = true)]
    async fn a_failed_listing_fails_no_caller_with_other_credentials() {
        let (clock, projects) = (Clock::system(), Projects::new(10));
        let [expired, same, good] =
            ["old", "old", "new"].map(|password| projects.join(&scope(), "a", credentials(password)));
        let tagging = good.begin_tagging();
        let list = async |result: Result<Vec<FloatingIp>, Error>| {
            sleep(Duration::from_secs(1)).await;
            result
        };
        let refused = || Error::new(ErrorKind::Unauthorized, "authenticate", "no");
        let call = async |pool: &ProjectHandle, result| {
            let after = pool.ledger().next_sequence();
            pool.refresh(list(result), &clock, after).await
        };
        let (failed, waited, listed, ()) = tokio::join!(
            call(&expired, Err(refused())),
            call(&same, Ok(Vec::new())),
            call(&good, Ok(Vec::new())),
            async { drop(tagging) },
        );
        assert!(failed.is_err() && waited.is_err(), "one request for a token is enough");
        listed.expect("its credentials are good");
    }
}
