//! Makes a history that fails short, by leaving out steps.

use std::time::{Duration, Instant};

use kube::Client;

use super::history::{Difference, History, Step};

/// How long it may take.
const LONGEST: Duration = Duration::from_secs(90);
/// How long the real controllers may take for a step of a repeated history.
const PATIENCE: Duration = Duration::from_secs(8);

/// The shortest history found that fails, and how.
pub async fn shrink(client: &Client, steps: Vec<Step>, difference: Difference) -> (Vec<Step>, Difference) {
    let (mut shortest, mut difference) = (steps, difference);
    let ends = Instant::now() + LONGEST;
    let mut chunk = shortest.len().div_ceil(2);
    while chunk > 0 && Instant::now() < ends {
        let mut begin = 0;
        let mut is_shorter = false;
        while begin < shortest.len() && Instant::now() < ends {
            let end = (begin + chunk).min(shortest.len());
            let candidate: Vec<Step> = [&shortest[..begin], &shortest[end..]].concat();
            match replay(client, &candidate).await {
                Some((length, found)) => {
                    shortest = candidate[..length].to_vec();
                    difference = found;
                    is_shorter = true;
                }
                None => begin = end,
            }
        }
        if !is_shorter || chunk > 1 {
            chunk /= 2;
        }
    }
    (shortest, difference)
}

/// How many steps it takes to fail, if it fails.
async fn replay(client: &Client, steps: &[Step]) -> Option<(usize, Difference)> {
    let mut history = History::new(client, &crate::support::unique("contract"), PATIENCE).await;
    let mut failed = None;
    for (index, step) in steps.iter().enumerate() {
        if let Err(difference) = history.take(step).await {
            failed = Some((index + 1, difference));
            break;
        }
    }
    history.abandon().await;
    failed
}
