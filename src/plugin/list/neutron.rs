//! What Neutron adds to the rows: ports, the addresses that a pool owns without a claim, and those that are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::rows::{AddressRow, address_rows};
use super::{retain_claims, selected_claims};
use crate::allocation::PoolId;
use crate::allocation::ledger::LedgerEntry;
use crate::allocation::mark::Ownership;
use crate::api::OpenStackFloatingIPPool;
use crate::controllers::inspect::View;
use crate::floating_ip::FloatingIpId;
use crate::object_name::ObjectName;
use crate::plugin::cli::{AddressState, List};
use crate::plugin::exit::Failure;
use crate::plugin::output::Progress;
use crate::plugin::session::{PluginSession, object_name};

pub(super) async fn list_with_neutron(session: &PluginSession, args: &List) -> Result<Vec<AddressRow>, Failure> {
    let progress = Progress::start("listing pools, claims and addresses");
    let inspection = session.inspect().await?;
    let pools = session.select(inspection.pools(), &args.pools.pools)?;
    let mut views = Vec::new();
    for pool in &pools {
        if let Some(view) = session.inspect_usable_pool(&inspection, pool, &progress).await? {
            views.push((pool, view));
        }
    }
    session.refresh(&inspection).await?;
    let mut rows = address_rows(&pools, &inspection.claims(), &inspection.addresses());
    for (pool, view) in &views {
        PoolInNeutron::of(pool, view).complete(&mut rows);
    }
    rows.sort_by(|one, other| one.key().cmp(&other.key()));
    if args.selector.is_some() {
        retain_claims(&mut rows, &selected_claims(session, args, session.version().await?).await?);
    }
    Ok(rows)
}

/// A pool, as Neutron has it.
struct PoolInNeutron {
    name: ObjectName,
    id: PoolId,
    /// Every floating IP of its project.
    entries: Vec<LedgerEntry>,
    /// The first addresses that it cannot give, and why.
    failures: Vec<(IpAddr, String)>,
    /// Those that are marked for a claim that does not have them.
    orphans: BTreeSet<FloatingIpId>,
}

impl PoolInNeutron {
    fn of(pool: &OpenStackFloatingIPPool, view: &View) -> Self {
        let sweep = view.sweep(None);
        Self {
            name: object_name(pool),
            id: view.policy().id.clone(),
            entries: view.entries(),
            failures: view.usage().failures.into_iter().map(|(address, why)| (address, why.to_string())).collect(),
            orphans: sweep.orphans.into_iter().chain(sweep.copied).collect(),
        }
    }

    /// Completes the pool's rows, and adds one for each floating IP that only its mark makes the pool's.
    fn complete(&self, rows: &mut Vec<AddressRow>) {
        let by_id: BTreeMap<&str, &LedgerEntry> =
            self.entries.iter().map(|entry| (entry.fip.id.as_str(), entry)).collect();
        let by_address: BTreeMap<IpAddr, &LedgerEntry> =
            self.entries.iter().map(|entry| (entry.fip.address, entry)).collect();
        let is_of_pool = |row: &AddressRow| row.namespace == self.name.namespace && row.pool == self.name.name;
        let mut shown = BTreeSet::new();
        for row in rows.iter_mut().filter(|row| is_of_pool(row)) {
            // By id where the IPAddress names one: another network may have the same address.
            let entry = match &row.floating_ip_id {
                Some(id) => by_id.get(id.as_str()),
                None => by_address.get(&row.address),
            };
            self.complete_row(row, entry.copied());
            shown.extend(row.floating_ip_id.clone());
        }
        for entry in self.entries.iter().filter(|entry| !shown.contains(entry.fip.id.as_str())) {
            if let Some(state) = self.marked_state(entry) {
                let mut row = AddressRow::new(&self.name, entry.fip.address, state);
                note_entry(&mut row, entry);
                rows.push(row);
            }
        }
        for row in rows.iter_mut().filter(|row| is_of_pool(row) && row.ip_address.is_none()) {
            if let Some((_, why)) = self.failures.iter().find(|(address, _)| *address == row.address) {
                (row.state, row.message) = (AddressState::Failed, Some(why.clone()));
            }
        }
    }

    fn complete_row(&self, row: &mut AddressRow, entry: Option<&LedgerEntry>) {
        if let Some(entry) = entry {
            note_entry(row, entry);
        }
        row.state = match (row.state, entry) {
            (AddressState::Allocated | AddressState::Releasing, None) => AddressState::Missing,
            (AddressState::Reserved | AddressState::Listed, None) => AddressState::Failed,
            (AddressState::Listed, Some(entry)) => self.marked_state(entry).unwrap_or_else(|| unmarked_state(entry)),
            _ => return,
        };
        if entry.is_none() {
            row.message = Some("is not a floating IP of the project".into());
        }
    }

    /// None unless it carries the pool's mark.
    fn marked_state(&self, entry: &LedgerEntry) -> Option<AddressState> {
        match entry.marks.ownership(&self.id) {
            Ownership::Unmarked | Ownership::Foreign => None,
            Ownership::Unclaimed => Some(AddressState::Free),
            Ownership::Released { .. } => Some(AddressState::Cooling),
            Ownership::Claimed(_) if self.orphans.contains(&entry.fip.id) => Some(AddressState::Orphan),
            // The IPAddress is about to be created.
            Ownership::Claimed(_) => Some(AddressState::Allocated),
            Ownership::Contested => Some(AddressState::Failed),
        }
    }
}

/// Of a listed address without the pool's mark.
fn unmarked_state(entry: &LedgerEntry) -> AddressState {
    match entry.fip.is_attached() || !entry.marks.pools().is_empty() {
        true => AddressState::Failed,
        false => AddressState::Free,
    }
}

fn note_entry(row: &mut AddressRow, entry: &LedgerEntry) {
    row.port = entry.fip.port.as_ref().map(ToString::to_string);
    row.floating_ip_id = Some(entry.fip.id.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::testing::{address, ago, fip, fixture, id, pool_id};

    #[test]
    fn neutron_confirms_completes_and_adds_rows() {
        let world = fixture().fips([
            fip(1).created_for("web-0").attached(),
            fip(2).created_for("web-1").released_by("web-1", ago(9)),
            fip(3).idle(),
            fip(4).created_for("gone"),
            fip(5),
            fip(6).attached(),
            fip(7),
            fip(8).tagged_by_another_pool(),
            fip(9).created_for("web-9"),
        ]);
        let pool = PoolInNeutron {
            name: ObjectName::new("team", "public"),
            id: pool_id("p"),
            entries: world.ledger.entries().cloned().collect(),
            failures: vec![(address(6), "is attached".into())],
            orphans: [id(4)].into(),
        };
        let row = |last, state, ip_address: Option<&str>| AddressRow {
            ip_address: ip_address.map(str::to_owned),
            floating_ip_id: ip_address.map(|_| id(last).to_string()),
            ..AddressRow::new(&pool.name, address(last), state)
        };
        let mut rows = vec![
            row(1, AddressState::Allocated, Some("web-0")),
            row(5, AddressState::Listed, None),
            row(6, AddressState::Listed, None),
            row(8, AddressState::Listed, None),
            row(20, AddressState::Listed, None),
            row(21, AddressState::Allocated, Some("web-2")),
            row(22, AddressState::Stray, Some("made-up")),
        ];
        let other = AddressRow::new(&ObjectName::new("team", "other"), address(30), AddressState::Listed);
        rows.push(other.clone());
        pool.complete(&mut rows);
        let found = |last| rows.iter().find(|row| row.address == address(last)).map(|row| row.state);
        let expected = [
            (1, AddressState::Allocated),
            (2, AddressState::Cooling),
            (3, AddressState::Free),
            (4, AddressState::Orphan),
            (5, AddressState::Free),
            (6, AddressState::Failed),
            (8, AddressState::Failed),
            (9, AddressState::Allocated),
            (20, AddressState::Failed),
            (21, AddressState::Missing),
            (22, AddressState::Stray),
        ];
        for (last, state) in expected {
            assert_eq!(found(last), Some(state), "203.0.113.{last}");
        }
        assert_eq!(found(7), None, "unmarked and unlisted: not of the pool");
        assert!(rows.contains(&other), "the rows of other pools are left alone");
        assert_eq!(rows[0].port.as_deref(), Some("port"));
        assert_eq!(rows[2].message.as_deref(), Some("is attached"));
    }

    #[test]
    fn an_address_is_found_by_its_id_where_two_networks_have_it() {
        let world = fixture().fips([fip(1).created_for("web-0").attached()]);
        let pool = PoolInNeutron {
            name: ObjectName::new("team", "public"),
            id: pool_id("p"),
            entries: world.ledger.entries().cloned().collect(),
            failures: vec![],
            orphans: BTreeSet::new(),
        };
        let mut row = AddressRow::new(&pool.name, address(1), AddressState::Allocated);
        (row.floating_ip_id, row.ip_address) = (Some("another".into()), Some("web-1".into()));
        let mut rows = vec![row];
        pool.complete(&mut rows);
        assert_eq!(
            rows.iter().map(|row| row.state).collect::<Vec<_>>(),
            [AddressState::Missing, AddressState::Allocated]
        );
    }
}
