//! The report of orphans: what a person reads, and what a release compares with.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anstyle::AnsiColor;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::plugin::output::{Report, bold, paint, style, table};

/// The form of the file.
pub(super) const VERSION: u32 = 1;

/// What was found, and when, and where.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written {
    /// The form of the file: [`VERSION`].
    pub(super) version: u32,
    /// The API server of the management cluster.
    pub(super) cluster: String,
    /// When Neutron had been listed.
    pub(super) taken_at: Timestamp,
    pub(super) orphans: Vec<Orphan>,
    /// What carries marks of pools that are not in this management cluster. For reading only.
    pub(super) strangers: Vec<Stranger>,
}

/// A floating IP that says that it belongs to a claim, and does not.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Orphan {
    pub(super) namespace: String,
    pub(super) pool: String,
    pub(super) pool_id: String,
    pub(super) project: String,
    pub(super) id: String,
    pub(super) address: IpAddr,
    pub(super) port: Option<String>,
    pub(super) description: String,
    pub(super) tags: BTreeSet<String>,
    pub(super) changed_at: Option<Timestamp>,
    /// Why it is one.
    pub(super) evidence: Vec<String>,
    /// Why it would not be released, as things were.
    pub(super) hindrance: Option<String>,
}

/// A floating IP with the mark of a pool that is not here.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stranger {
    pub(super) id: String,
    pub(super) address: IpAddr,
    pub(super) project: String,
    pub(super) pool_ids: Vec<String>,
    pub(super) description: String,
}

impl Report for Written {
    fn text(&self, is_wide: bool) -> String {
        let mut text = String::new();
        if self.orphans.is_empty() {
            text += &format!(
                "{}: every floating IP with a pool's mark belongs to a claim, or is free\n",
                bold("no orphans")
            );
        } else {
            let rows: Vec<Vec<String>> = self.orphans.iter().map(|orphan| orphan.row(is_wide)).collect();
            let mut head = vec!["NAMESPACE", "POOL", "ADDRESS", "RELEASABLE", "WHY"];
            if is_wide {
                head.extend(["ID", "CHANGED"]);
            }
            text += &table(&head, &rows);
        }
        if !self.strangers.is_empty() {
            text += &format!(
                "{} more carry marks of pools that are not in this management cluster (another one's, or of a pool that went by force); they are never released from here\n",
                self.strangers.len()
            );
        }
        if is_wide {
            let row = |stranger: &Stranger| {
                vec![stranger.address.to_string(), stranger.pool_ids.join(","), stranger.description.clone()]
            };
            let rows: Vec<Vec<String>> = self.strangers.iter().map(row).collect();
            text += &if rows.is_empty() { String::new() } else { table(&["ADDRESS", "POOLID", "DESCRIPTION"], &rows) };
        }
        text
    }
}

impl Orphan {
    fn row(&self, is_wide: bool) -> Vec<String> {
        let releasable = match &self.hindrance {
            None => paint(style(AnsiColor::Green), "yes"),
            Some(_) => paint(style(AnsiColor::Yellow), "no"),
        };
        let why = self.hindrance.clone().or_else(|| self.evidence.first().cloned()).unwrap_or_default();
        let mut row = vec![self.namespace.clone(), self.pool.clone(), self.address.to_string(), releasable, why];
        if is_wide {
            row.extend([self.id.clone(), self.changed_at.map_or("-".into(), |at| at.to_string())]);
        }
        row
    }
}
