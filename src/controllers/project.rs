//! One project's ledger, shared by all its pools, and the one listing at a time that keeps it true.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use jiff::Timestamp;

use crate::allocation::Ledger;
use crate::allocation::ledger::Step;
use crate::clock::Clock;
use crate::openstack::{Error, Neutron, Scope};

mod quota;

use quota::QuotaCache;

/// How long a look waits for tags that are being written, so that one listing reads many back.
const GATHER: Duration = Duration::from_millis(400);

/// One project of one cloud.
pub(super) struct Project {
    // A plain mutex: decisions are made under it, and no call is.
    ledger: Mutex<Ledger>,
    // tokio's mutex: held for the length of a listing, which is its purpose: whoever waits gets the next one's result.
    listing: tokio::sync::Mutex<()>,
    failed: Mutex<Option<(Step, Error)>>,
    tagging: Mutex<usize>,
    /// The quota of floating IPs, for the metric.
    pub(super) quota: QuotaCache,
}

impl Project {
    /// The ledger, for a decision or a note.
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no code panics while it holds the ledger")
    }

    /// Makes sure that the ledger has a listing that began at `after` or later. Callers at the same time share one.
    pub(super) async fn look(&self, neutron: &dyn Neutron, clock: &Clock, after: Step) -> Result<(), Error> {
        if self.ledger().listed().is_some_and(|listed| listed >= after) {
            return Ok(());
        }
        let _turn = self.listing.lock().await;
        if self.ledger().listed().is_some_and(|listed| listed >= after) {
            return Ok(());
        }
        if let Some((began, error)) = &*self.failed.lock().expect("no code panics while it holds the failure")
            && *began >= after
        {
            return Err(error.clone());
        }
        self.gather().await;
        let (began, began_at) = (self.ledger().next_step(), clock.now());
        match neutron.list_floating_ips().await {
            Ok(fips) => {
                self.ledger().list(began, began_at, fips, clock.now());
                Ok(())
            }
            Err(error) => {
                *self.failed.lock().expect("no code panics while it holds the failure") = Some((began, error.clone()));
                Err(error)
            }
        }
    }

    /// Makes sure that the ledger has a listing that ended at `since` or later.
    pub(super) async fn look_since(&self, neutron: &dyn Neutron, clock: &Clock, since: Timestamp) -> Result<(), Error> {
        if self.ledger().listed_at().is_some_and(|at| at >= since) {
            return Ok(());
        }
        let after = self.ledger().next_step();
        self.look(neutron, clock, after).await
    }

    /// Counts a tag that is being written, until the guard goes.
    pub(super) fn tagging(&self) -> Tagging<'_> {
        *self.tags() += 1;
        Tagging(self)
    }

    fn tags(&self) -> MutexGuard<'_, usize> {
        self.tagging.lock().expect("no code panics while it counts")
    }

    async fn gather(&self) {
        let until = tokio::time::Instant::now() + GATHER;
        while *self.tags() > 0 && tokio::time::Instant::now() < until {
            tokio::time::sleep(GATHER / 20).await;
        }
    }
}

/// See [`Project::tagging`].
pub(super) struct Tagging<'a>(&'a Project);

impl Drop for Tagging<'_> {
    fn drop(&mut self) {
        *self.0.tags() -= 1;
    }
}

/// The projects that some pool works in.
#[derive(Default)]
pub(super) struct Projects(Mutex<BTreeMap<Scope, Weak<Project>>>);

impl Projects {
    /// The project of a session: one and the same for all who work in it, whatever their credentials.
    pub(super) fn of(&self, scope: &Scope) -> Arc<Project> {
        let mut projects = self.0.lock().expect("no code panics while it holds the projects");
        projects.retain(|_, project| project.strong_count() > 0);
        if let Some(project) = projects.get(scope).and_then(Weak::upgrade) {
            return project;
        }
        let project = Arc::new(Project {
            ledger: Mutex::default(),
            listing: tokio::sync::Mutex::default(),
            failed: Mutex::default(),
            tagging: Mutex::default(),
            quota: QuotaCache::default(),
        });
        projects.insert(scope.clone(), Arc::downgrade(&project));
        project
    }
}
