//! Neutron's access log, whose lines are `epoch method uri status milliseconds`: every call as the server saw it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::support::call_name;

/// A query parameter that marks the listings of the benchmark itself: they are not counted. Every floating IP is on the page.
pub const NOT_COUNTED: &str = "limit=43210";

pub struct AccessLog {
    path: PathBuf,
}

/// How many calls there were, by name: `PUT floatingips/ID/tags/TAG`.
pub type Calls = BTreeMap<String, usize>;

impl AccessLog {
    /// The file that `CAIP_NEUTRON_LOG` names.
    pub fn from_env() -> Self {
        Self { path: crate::support::required("CAIP_NEUTRON_LOG").into() }
    }

    /// The length of the log now.
    pub fn end(&self) -> u64 {
        std::fs::metadata(&self.path).unwrap_or_else(|error| panic!("read {}: {error}", self.path.display())).len()
    }

    /// The calls between two lengths of the log.
    pub fn calls(&self, begin: u64, end: u64) -> Calls {
        let mut file = File::open(&self.path).expect("Neutron's access log can be read");
        file.seek(SeekFrom::Start(begin)).expect("a file can be read from anywhere");
        let mut text = String::new();
        file.take(end.saturating_sub(begin)).read_to_string(&mut text).expect("Neutron's access log is text");
        let mut calls = Calls::new();
        for name in text.lines().filter_map(counted_call) {
            *calls.entry(name).or_default() += 1;
        }
        calls
    }

    /// Waits until Neutron has not been written to for `quiet`; returns when the last write was seen, and the length of
    /// the log. Listings are not waited for: a slow resync may never end.
    pub async fn await_quiet(&self, quiet: Duration) -> (Instant, u64) {
        let mut end = self.end();
        let mut since = Instant::now();
        while since.elapsed() < quiet {
            sleep(Duration::from_millis(25)).await;
            let now = self.end();
            if now > end {
                if count_writes(&self.calls(end, now)) > 0 {
                    since = Instant::now();
                }
                end = now;
            }
        }
        (since, end)
    }
}

/// How many of the calls change something.
pub fn count_writes(calls: &Calls) -> usize {
    calls.iter().filter(|(name, _)| !name.starts_with("GET ")).map(|(_, count)| count).sum()
}

fn counted_call(line: &str) -> Option<String> {
    let mut words = line.split(' ');
    let (_, method, uri) = (words.next()?, words.next()?, words.next()?);
    if uri.contains(NOT_COUNTED) {
        return None;
    }
    Some(call_name(method, uri.split('?').next()?))
}
