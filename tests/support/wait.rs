//! Waiting with a limit, by polling. Objects of Kubernetes are watched: see `namespace/conditions.rs`.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How soon a mistake must be reported.
pub const SOON: Duration = Duration::from_secs(15);
/// How soon a pool or claim must recover once the cause is fixed; also the limit for what should work at once.
pub const RECOVERY: Duration = Duration::from_secs(30);

/// Repeats `check` until it is `Ok`, for as long as `within`; then panics with the last error.
pub async fn eventually<T, E: Display>(within: Duration, check: impl AsyncFnMut() -> Result<T, E>) -> T {
    try_for(within, check).await.unwrap_or_else(|reason| panic!("not within {within:?}: {reason}"))
}

/// Repeats `check` until it is `Ok`, for as long as `within`; then returns the last error.
pub async fn try_for<T, E>(within: Duration, mut check: impl AsyncFnMut() -> Result<T, E>) -> Result<T, E> {
    let end = Instant::now() + within;
    let mut pause = Duration::from_millis(50);
    loop {
        let answer = check().await;
        if answer.is_ok() || Instant::now() >= end {
            return answer;
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

/// Repeats `check` for as long as `during`, and panics unless it is always `Ok`.
pub async fn consistently<E: Display>(during: Duration, mut check: impl AsyncFnMut() -> Result<(), E>) {
    let end = Instant::now() + during;
    while Instant::now() < end {
        if let Err(reason) = check().await {
            panic!("it did not hold for {during:?}: {reason}");
        }
        sleep(Duration::from_secs(1)).await;
    }
}
