//! Lookups of the names of servers that tenants chose.
//!
//! The system's resolver blocks a thread for each, for half a minute where no name server answers, and cannot be
//! cancelled. So a lookup keeps its slot until its thread is free, even if its caller has given up by then.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::fair::FairSlots;

/// The most lookups of one namespace at a time. A lookup takes milliseconds where name servers answer.
const MAX_OF_NAMESPACE: usize = 4;
/// The most lookups at a time in all. tokio has 512 threads for what blocks, and a lookup of the API server's name needs
/// one as well.
const MAX: usize = 128;
/// For the wait and the lookup. Less than for a connection, so that the error says why there is none.
pub(in crate::openstack) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(4);

type Addresses = io::Result<Vec<SocketAddr>>;
type LookUp = dyn Fn(&str) -> Addresses + Send + Sync;

/// A name was not resolved within [`LOOKUP_TIMEOUT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("host names resolve slowly")]
pub(in crate::openstack) struct SlowLookup;

/// The lookups of all namespaces.
pub(in crate::openstack) struct Lookups {
    slots: Arc<FairSlots<String>>,
    look_up: Arc<LookUp>,
}

/// The lookups of one HTTP client.
#[derive(Clone)]
pub(in crate::openstack) struct ClientLookups {
    all: Arc<Lookups>,
    /// The namespaces that have used the client. All have the same credentials, so none chose the server for another.
    users: Arc<Mutex<BTreeSet<String>>>,
}

impl Lookups {
    /// By the system's resolver.
    pub(in crate::openstack) fn system() -> Self {
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.collect()))
    }

    fn new(look_up: impl Fn(&str) -> Addresses + Send + Sync + 'static) -> Self {
        Self { slots: Arc::new(FairSlots::with_key_limit(MAX, MAX_OF_NAMESPACE)), look_up: Arc::new(look_up) }
    }
}

impl ClientLookups {
    pub(in crate::openstack) fn new(all: Arc<Lookups>) -> Self {
        Self { all, users: Arc::default() }
    }

    /// From now on, a lookup may count for this namespace.
    pub(in crate::openstack) fn add_user(&self, namespace: &str) {
        let mut users = self.users.lock();
        if !users.contains(namespace) {
            users.insert(namespace.to_owned());
        }
    }

    /// The addresses of a name. Counts for the user that has the fewest lookups, so that one whose lookups hang does not
    /// keep the others from a server that they share.
    pub(super) async fn find(&self, name: &str) -> Result<Addresses, SlowLookup> {
        let Lookups { slots, look_up } = &*self.all;
        let namespace = self.users.lock().iter().min_by_key(|user| slots.in_use(user)).cloned().unwrap_or_default();
        let (name, look_up) = (name.to_owned(), look_up.clone());
        let find = async {
            let slot = slots.acquire(namespace).await;
            let found = spawn_blocking(move || {
                let _slot = slot;
                look_up(&name)
            });
            found.await.unwrap_or_else(|error| Err(io::Error::other(error)))
        };
        timeout(LOOKUP_TIMEOUT, find).await.map_err(|_| SlowLookup)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use futures::FutureExt;
    use futures::future::join_all;
    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;

    fn client(all: &Arc<Lookups>, namespaces: &[&str]) -> ClientLookups {
        let client = ClientLookups::new(all.clone());
        namespaces.iter().for_each(|namespace| client.add_user(namespace));
        client
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_that_hang_use_up_the_share_of_their_namespace_until_they_end() {
        let (end, is_ended) = mpsc::channel::<()>();
        let (is_ended, started) = (Mutex::new(is_ended), Arc::new(AtomicUsize::new(0)));
        let count = started.clone();
        let all = Arc::new(Lookups::new(move |name| {
            count.fetch_add(1, Ordering::Relaxed);
            if name == "hangs.test" {
                let _ended = is_ended.lock().recv();
            }
            Ok(vec![SocketAddr::from(([192, 0, 2, 1], 0))])
        }));
        let (hostile, other) = (client(&all, &["team-a"]), client(&all, &["team-b"]));
        let shared = client(&all, &["team-a", "team-b"]);
        for _ in 0..3 {
            let mut hanging = Box::pin(join_all((0..MAX).map(|_| hostile.find("hangs.test"))));
            assert!((&mut hanging).now_or_never().is_none());
            advance(LOOKUP_TIMEOUT).await;
            assert!(hanging.await.into_iter().all(|result| result.is_err()));
            for client in [&other, &shared] {
                assert!(client.find("cloud.test").await.is_ok_and(|found| found.is_ok()));
            }
        }
        assert_eq!(all.slots.in_use(&"team-a".to_owned()), MAX_OF_NAMESPACE);
        drop(end);
        assert!(hostile.find("cloud.test").await.is_ok_and(|found| found.is_ok()));
        while all.slots.in_use(&"team-a".to_owned()) > 0 {
            yield_now().await;
        }
        assert_eq!(started.load(Ordering::Relaxed), MAX_OF_NAMESPACE + 3 * 2 + 1);
    }
}
