//! What all sessions of one namespace may use together. A tenant chooses the servers that its sessions talk to: without
//! limits, slow servers of one tenant could take the memory and the connections of all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Requests for tokens at a time. Keystone answers in 80 ms, and a pool needs one token an hour. A Keystone that does not
/// answer keeps one for 10 s.
const TOKEN_REQUESTS: usize = 4;

/// The limits of one namespace.
pub(super) struct Allowance {
    calls: Semaphore,
    token_requests: Semaphore,
    large_answers: Arc<Semaphore>,
}

impl Allowance {
    /// With as many calls to Neutron at a time.
    pub(super) fn new(max_calls: usize) -> Self {
        // A flag may ask for more than a semaphore can have.
        let calls = Semaphore::new(max_calls.min(Semaphore::MAX_PERMITS));
        Self { calls, token_requests: Semaphore::new(TOKEN_REQUESTS), large_answers: Arc::new(Semaphore::new(1)) }
    }

    /// Permission for one call to Neutron, until it is dropped.
    pub(super) async fn call(&self) -> SemaphorePermit<'_> {
        acquire(&self.calls).await
    }

    /// Permission for one request for a token, until it is dropped. Who has it waits for no other permission.
    pub(super) async fn token_request(&self) -> SemaphorePermit<'_> {
        acquire(&self.token_requests).await
    }
}

/// First come, first served.
#[expect(clippy::expect_used, reason = "only a closed semaphore has no permits to wait for")]
async fn acquire(permits: &Semaphore) -> SemaphorePermit<'_> {
    permits.acquire().await.expect("these semaphores are never closed")
}

/// Permission to read a large answer: one at a time in each namespace. It is kept until this is dropped, so that it covers
/// the rows of several pages.
pub(in super::super) struct LargeAnswer {
    permits: Arc<Semaphore>,
    permit: OnceCell<OwnedSemaphorePermit>,
    was_refused: AtomicBool,
}

impl LargeAnswer {
    pub(super) fn new(allowance: &Allowance) -> Self {
        Self { permits: allowance.large_answers.clone(), permit: OnceCell::new(), was_refused: AtomicBool::new(false) }
    }

    /// Waits until no other large answer is read for the namespace. Not for use during a call: the other one may have
    /// further pages to read, for which it needs permission to call.
    #[expect(clippy::expect_used, reason = "only a closed semaphore has no permits to wait for")]
    pub(in super::super) async fn acquire(&self) {
        let acquire = || async { self.permits.clone().acquire_owned().await.expect("it is never closed") };
        self.permit.get_or_init(acquire).await;
        self.was_refused.store(false, Ordering::Relaxed);
    }

    /// False if another large answer is being read.
    pub(super) fn try_acquire(&self) -> bool {
        let acquire = || self.permits.clone().try_acquire_owned().is_ok_and(|permit| self.permit.set(permit).is_ok());
        let is_acquired = self.permit.initialized() || acquire();
        self.was_refused.store(!is_acquired, Ordering::Relaxed);
        is_acquired
    }

    /// Whether an answer was given up since [`Self::try_acquire`] failed.
    pub(super) fn was_refused(&self) -> bool {
        self.was_refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_large_answer_is_read_at_a_time() {
        let (allowance, elsewhere) = (Allowance::new(1), Allowance::new(1));
        let (first, second, other) =
            (LargeAnswer::new(&allowance), LargeAnswer::new(&allowance), LargeAnswer::new(&elsewhere));
        assert!(first.try_acquire() && first.try_acquire() && other.try_acquire());
        first.acquire().await;
        assert!(!second.try_acquire() && second.was_refused() && second.acquire().now_or_never().is_none());
        drop(first);
        assert!(second.acquire().now_or_never().is_some() && !second.was_refused() && second.try_acquire());
    }
}
