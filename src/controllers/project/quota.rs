//! The project's quota of floating IPs, for its metric and the condition `Exhausted`: read rarely, shared by all pools of
//! the project, and never a reason to fail or to wait long.

use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::openstack::{Error, Quota};
use crate::time::after;

/// How often it is read: a quota rarely changes, and claims do not wait for it. With jitter, so that projects are
/// not read all at once.
const INTERVAL: Duration = Duration::from_secs(600);
/// How soon it is read again after that failed.
const RETRY: Duration = Duration::from_secs(30);
/// How long a pool waits for it.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(in crate::controllers) struct QuotaCache(Mutex<State>);

#[derive(Default)]
struct State {
    last: Option<Quota>,
    next: Option<Timestamp>,
    /// It could not be read the last time, or is being read.
    has_failed: bool,
}

impl QuotaCache {
    /// As it was last read; none if it was never read, or may no longer be read.
    pub(in crate::controllers) fn last(&self) -> Option<Quota> {
        self.0.lock().last
    }

    /// Whether it could not be read the last time: it is tried again soon.
    pub(in crate::controllers) fn has_failed(&self) -> bool {
        self.0.lock().has_failed
    }

    /// Awaits `read`, unless it succeeded within the last [`INTERVAL`] or was begun within the last [`RETRY`]. Returns
    /// whether it was read now and has room for one more.
    pub(in crate::controllers) async fn refresh(
        &self,
        read: impl Future<Output = Result<Option<Quota>, Error>>,
        clock: &Clock,
    ) -> bool {
        {
            let (mut state, now) = (self.0.lock(), clock.now());
            if state.next.is_some_and(|next| now < next) {
                return false;
            }
            (state.next, state.has_failed) = (Some(after(now, clock.jitter(RETRY, 0.2))), true);
        }
        match tokio::time::timeout(TIMEOUT, read).await {
            Ok(Ok(quota)) => {
                let next = after(clock.now(), clock.jitter(INTERVAL, 0.2));
                *self.0.lock() = State { last: quota, next: Some(next), has_failed: false };
                return quota.is_some_and(|quota| quota.limit.is_none_or(|limit| quota.used < limit));
            }
            // The last value stays.
            Ok(Err(error)) => tracing::debug!(%error, "the quota cannot be read now"),
            Err(_) => tracing::debug!("the quota cannot be read within {TIMEOUT:?}"),
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use tokio::time::{Instant, advance};

    use super::*;
    use crate::openstack::ErrorKind;

    const SEVEN: Option<Quota> = Some(Quota { limit: Some(7), used: 0 });

    fn clock() -> Clock {
        Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 1)
    }

    #[tokio::test(start_paused = true)]
    async fn the_quota_is_read_at_once_and_then_every_ten_minutes() {
        let (quota, clock, reads) = (QuotaCache::default(), clock(), Cell::new(0));
        let read = async || {
            reads.set(reads.get() + 1);
            Ok(SEVEN)
        };
        assert_eq!(quota.last(), None);
        for _ in 0..60 {
            quota.refresh(read(), &clock).await;
            assert_eq!(quota.last(), SEVEN);
            advance(Duration::from_secs(60)).await;
        }
        assert!((5..=6).contains(&reads.get()), "{} reads in an hour", reads.get());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_quota_that_is_read_now_shows_room() {
        let (quota, clock) = (QuotaCache::default(), clock());
        let shows_room = async |read: Option<Quota>| {
            let shown = quota.refresh(ready(Ok(read)), &clock).await;
            assert!(!quota.refresh(ready(Ok(read)), &clock).await, "it is not read again so soon");
            advance(INTERVAL * 2).await;
            shown
        };
        assert!(shows_room(SEVEN).await);
        assert!(!shows_room(Some(Quota { limit: Some(7), used: 7 })).await);
        assert!(shows_room(Some(Quota { limit: None, used: 7 })).await);
        assert!(!shows_room(None).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_forbidden_quota_is_none_and_is_not_read_more_often() {
        let (quota, clock) = (QuotaCache::default(), clock());
        quota.refresh(ready(Ok(SEVEN)), &clock).await;
        advance(INTERVAL * 2).await;
        quota.refresh(ready(Ok(None)), &clock).await;
        assert_eq!(quota.last(), None);
        quota.refresh(ready(Ok(SEVEN)), &clock).await;
        assert_eq!(quota.last(), None, "it was not read again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_or_slow_read_keeps_the_last_quota_and_takes_bounded_time() {
        let (quota, clock) = (QuotaCache::default(), clock());
        quota.refresh(ready(Ok(SEVEN)), &clock).await;
        advance(INTERVAL * 2).await;
        quota.refresh(ready(Err(Error::new(ErrorKind::NoAnswer, "read quota", "no answer"))), &clock).await;
        assert_eq!(quota.last(), SEVEN);
        advance(RETRY * 2).await;
        let begin = Instant::now();
        quota.refresh(pending(), &clock).await;
        assert!(begin.elapsed() <= TIMEOUT + Duration::from_millis(1));
        assert_eq!(quota.last(), SEVEN);
        let begun = Cell::new(false);
        let read = async || {
            begun.set(true);
            Ok(None)
        };
        quota.refresh(read(), &clock).await;
        assert!(!begun.get(), "it is not read again so soon");
        advance(RETRY * 2).await;
        quota.refresh(read(), &clock).await;
        assert_eq!(quota.last(), None);
    }
}
