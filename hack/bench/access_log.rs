//! Neutron's access log: who calls what, as the server saw it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::time::sleep;

use crate::neutron::OURS;

/// The log file, whose lines are `epoch method uri status milliseconds`.
pub struct AccessLog {
    path: PathBuf,
}

/// Calls by method and kind of path: `PUT floatingips/ID/tags/TAG`.
pub type Calls = BTreeMap<String, usize>;

impl AccessLog {
    /// The file that `CAIP_NEUTRON_LOG` names.
    pub fn from_env() -> Result<Self> {
        let path = std::env::var_os("CAIP_NEUTRON_LOG").context("CAIP_NEUTRON_LOG is not set: see `make env-up`")?;
        let log = Self { path: path.into() };
        log.end()?;
        Ok(log)
    }

    /// Where the log ends now.
    pub fn end(&self) -> Result<u64> {
        let found = std::fs::metadata(&self.path).with_context(|| format!("read {}", self.path.display()))?;
        Ok(found.len())
    }

    /// The calls between two places.
    pub fn calls(&self, begin: u64, end: u64) -> Result<Calls> {
        let mut file = File::open(&self.path).with_context(|| format!("read {}", self.path.display()))?;
        file.seek(SeekFrom::Start(begin))?;
        let mut text = String::new();
        file.take(end.saturating_sub(begin)).read_to_string(&mut text)?;
        let mut calls = Calls::new();
        for kind in text.lines().filter_map(kind) {
            *calls.entry(kind).or_default() += 1;
        }
        Ok(calls)
    }

    /// Waits until nobody has written for `quiet`, and returns when and where the log ended. Listings are not waited
    /// for: a slow look around may go on for ever.
    pub async fn quiet_since(&self, quiet: Duration) -> Result<(Instant, u64)> {
        let mut end = self.end()?;
        let mut since = Instant::now();
        while since.elapsed() < quiet {
            sleep(Duration::from_millis(25)).await;
            let now = self.end()?;
            if now > end {
                let has_writes = self.calls(end, now)?.keys().any(|kind| !kind.starts_with("GET"));
                end = now;
                if has_writes {
                    since = Instant::now();
                }
            }
        }
        Ok((since, end))
    }
}

/// `1795252488 PUT /v2.0/floatingips/0b…/tags/a 201 29` is a `PUT floatingips/ID/tags/TAG`. Ours count for nothing.
fn kind(line: &str) -> Option<String> {
    let mut words = line.split(' ');
    let (_, method, uri) = (words.next()?, words.next()?, words.next()?);
    if uri.contains(OURS) {
        return None;
    }
    let path = uri.split('?').next()?.trim_start_matches("/v2.0").trim_matches('/');
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        steps.push(match steps.last() {
            Some(&"tags") => "TAG",
            _ if is_id(step) => "ID",
            _ => step,
        });
    }
    Some(format!("{method} {}", steps.join("/")))
}

fn is_id(step: &str) -> bool {
    step.len() == 36 && step.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}
