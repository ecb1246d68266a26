//! Permission to read a large answer: one at a time in each namespace. A tenant chooses the servers that answer: slow ones
//! could otherwise fill the memory with unfinished answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// It is kept until this is dropped, so that it covers the rows of several pages.
pub(in super::super) struct LargeAnswer {
    permits: Arc<Semaphore>,
    permit: OnceCell<OwnedSemaphorePermit>,
    /// By the last [`Self::try_acquire`], after which the answer is given up.
    was_refused: AtomicBool,
}

impl LargeAnswer {
    /// `permits` has one for each answer that may be read at a time.
    pub(super) fn new(permits: Arc<Semaphore>) -> Self {
        Self { permits, permit: OnceCell::new(), was_refused: AtomicBool::new(false) }
    }

    /// Waits until no other large answer is read for the namespace. Not for use during a call, or with an answer in memory:
    /// the other one may wait for a slot, and those who wait must take no memory.
    #[expect(clippy::expect_used, reason = "only a closed semaphore has no permits to wait for")]
    pub(in super::super) async fn acquire(&self) {
        let acquire = || async { self.permits.clone().acquire_owned().await.expect("it is never closed") };
        self.permit.get_or_init(acquire).await;
        self.was_refused.store(false, Ordering::Relaxed);
    }

    /// False if another large answer is being read: then this one is not read further.
    pub(in super::super) fn try_acquire(&self) -> bool {
        let acquire = || self.permits.clone().try_acquire_owned().is_ok_and(|permit| self.permit.set(permit).is_ok());
        let is_acquired = self.permit.initialized() || acquire();
        self.was_refused.store(!is_acquired, Ordering::Relaxed);
        is_acquired
    }

    /// The result of `attempt`. If it failed because [`Self::try_acquire`] did, of a second one, with permission.
    pub(super) async fn acquire_if_refused<T, E, F>(&self, attempt: impl Fn() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        match attempt().await {
            Err(_) if self.was_refused.load(Ordering::Relaxed) => {
                self.acquire().await;
                attempt().await
            }
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_large_answer_is_read_at_a_time() {
        let (own, elsewhere) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(1)));
        let (first, second, other) =
            (LargeAnswer::new(own.clone()), LargeAnswer::new(own), LargeAnswer::new(elsewhere));
        assert!(first.try_acquire() && first.try_acquire() && other.try_acquire());
        first.acquire().await;
        let read = || async { if second.try_acquire() { Ok(()) } else { Err(()) } };
        assert!(second.acquire_if_refused(read).now_or_never().is_none());
        drop(first);
        assert_eq!(second.acquire_if_refused(read).now_or_never(), Some(Ok(())));
    }

    #[tokio::test]
    async fn an_attempt_that_failed_otherwise_is_not_repeated() {
        let large = LargeAnswer::new(Arc::new(Semaphore::new(1)));
        let attempts = Cell::new(0);
        let fail = || async {
            attempts.set(attempts.get() + 1);
            Err::<(), _>(large.try_acquire())
        };
        assert_eq!((large.acquire_if_refused(fail).await, attempts.get()), (Err(true), 1));
    }
}
