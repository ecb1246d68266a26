//! Waiting with an end: by a watch where there is one, else by asking again.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How soon a person must be told what is wrong.
pub const SOON: Duration = Duration::from_secs(15);
/// How soon things must be well again once the cause is mended; also the time for anything that should just work.
pub const HEALS: Duration = Duration::from_secs(30);

/// Asks until the answer is `Ok`, for as long as `within`; then panics with the last reason why not.
pub async fn eventually<T, E: Display>(within: Duration, mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + within;
    let mut pause = Duration::from_millis(50);
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(reason) => assert!(Instant::now() < end, "not within {within:?}: {reason}"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

/// Asks again and again for as long as `during`, and panics when the answer is not `Ok`: how else would one see that
/// nothing happens?
pub async fn stays<E: Display>(during: Duration, mut ask: impl AsyncFnMut() -> Result<(), E>) {
    let end = Instant::now() + during;
    while Instant::now() < end {
        if let Err(reason) = ask().await {
            panic!("it did not stay so for {during:?}: {reason}");
        }
        sleep(Duration::from_secs(1)).await;
    }
}
