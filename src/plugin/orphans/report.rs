//! The report of orphans: people read it, and a release compares with it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anstyle::AnsiColor;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::plugin::output::{Report, bold, or_dash, paint, table};

/// The version of the file's format.
pub(crate) const VERSION: u32 = 1;

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrphanReport {
    /// [`VERSION`]
    pub(super) version: u32,
    /// The URL of the management cluster's API server.
    pub(super) cluster: String,
    /// After Neutron was listed, and before Kubernetes was listed again.
    pub(super) taken_at: Timestamp,
    pub(super) orphans: Vec<Orphan>,
    /// For information only: they are never released.
    pub(super) foreign: Vec<ForeignFloatingIp>,
}

/// A floating IP with the mark of a claim that does not exist.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Orphan {
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
    pub(super) evidence: Vec<String>,
    /// Why it could not be released when the report was made.
    pub(super) blocked_by: Option<String>,
}

/// A floating IP that carries only marks of pools outside this management cluster.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForeignFloatingIp {
    pub(super) id: String,
    pub(super) address: IpAddr,
    pub(super) project: String,
    pub(super) pool_ids: Vec<String>,
    pub(super) description: String,
}

impl Report for OrphanReport {
    fn text(&self, is_wide: bool) -> String {
        let mut text = String::new();
        if self.orphans.is_empty() {
            text += &format!(
                "{}: every floating IP with a pool's mark is free or belongs to a claim\n",
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
        if !self.foreign.is_empty() {
            text += &format!(
                "{} more carry marks of pools outside this management cluster (another cluster's, or of a pool that was removed by force); they are never released from here\n",
                self.foreign.len()
            );
        }
        if is_wide && !self.foreign.is_empty() {
            let row = |fip: &ForeignFloatingIp| {
                vec![fip.address.to_string(), fip.pool_ids.join(","), fip.description.clone()]
            };
            let rows: Vec<Vec<String>> = self.foreign.iter().map(row).collect();
            text += &table(&["ADDRESS", "POOLID", "DESCRIPTION"], &rows);
        }
        text
    }
}

impl Orphan {
    fn row(&self, is_wide: bool) -> Vec<String> {
        let releasable = match &self.blocked_by {
            None => paint(AnsiColor::Green, "yes"),
            Some(_) => paint(AnsiColor::Yellow, "no"),
        };
        let why = self.blocked_by.clone().or_else(|| self.evidence.first().cloned()).unwrap_or_default();
        let mut row = vec![self.namespace.clone(), self.pool.clone(), self.address.to_string(), releasable, why];
        if is_wide {
            row.extend([self.id.clone(), or_dash(self.changed_at)]);
        }
        row
    }
}
