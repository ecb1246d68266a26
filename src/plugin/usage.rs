//! `usage`: how full the pools are, from the status that the controllers last wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use anstyle::AnsiColor;
use kube::{ResourceExt, api::ListParams};
use serde::Serialize;

use super::exit::{Answer, Failure};
use super::figures::PoolCapacity;
use super::output::format::Format;
use super::output::{self, Report, or_dash, paint, table};
use super::readable::list_readable;
use super::session::{PluginSession, object_name};
use crate::api::conditions::{EXHAUSTED, READY};
use crate::api::pool::AddressCounts;
use crate::api::{IpAddressClaim, OpenStackFloatingIPPool};
use crate::object_name::ObjectName;

const BAR_WIDTH: u8 = 24;

#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
struct PoolSummary {
    namespace: String,
    name: String,
    /// The status of the `Ready` condition: `True`, `False` or `Unknown`.
    ready: String,
    reason: String,
    is_exhausted: bool,
    #[serde(flatten)]
    figures: PoolCapacity,
    /// Claims without an address.
    waiting: usize,
    pool_id: Option<String>,
}

#[derive(Serialize)]
#[serde(transparent)]
struct UsageReport(Vec<PoolSummary>);

pub(super) async fn show_usage(
    session: &PluginSession,
    named: &[String],
    format: Option<&Format>,
) -> Result<Answer, Failure> {
    let version = session.version().await?;
    let everything = ListParams::default();
    let pools = list_readable(session.pools(), &everything, "list pools").await?;
    let claims = list_readable(session.ipam_objects(version), &everything, "list IPAddressClaims").await?;
    let mut pools = session.select(pools, named)?;
    pools.sort_by_key(|pool| object_name(pool.as_ref()));
    let waiting = count_waiting(&claims);
    let waiting_for = |pool: &OpenStackFloatingIPPool| waiting.get(&object_name(pool)).copied().unwrap_or_default();
    let report = UsageReport(pools.iter().map(|pool| summarize(pool, waiting_for(pool))).collect());
    if report.0.is_empty() && !format.is_some_and(Format::is_for_programs) {
        output::note(&format!("there is no OpenStackFloatingIPPool {}", session.place()));
        return Ok(Answer::Yes);
    }
    output::print(&report, format)?;
    Ok(Answer::Yes)
}

/// The number of claims without an address, by pool.
#[expect(clippy::arithmetic_side_effects, reason = "it counts what is in memory")]
fn count_waiting(claims: &[Arc<IpAddressClaim>]) -> BTreeMap<ObjectName, usize> {
    let mut waiting = BTreeMap::new();
    for claim in claims {
        if claim.spec.pool_ref.is_ours() && claim.is_waiting() {
            let pool = ObjectName::new(claim.namespace().unwrap_or_default(), &claim.spec.pool_ref.name);
            *waiting.entry(pool).or_default() += 1;
        }
    }
    waiting
}

fn summarize(pool: &OpenStackFloatingIPPool, waiting: usize) -> PoolSummary {
    let status = pool.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
    PoolSummary {
        namespace: pool.namespace().unwrap_or_default(),
        name: pool.name_any(),
        ready: condition(READY).map_or("Unknown".into(), |ready| ready.status.clone()),
        reason: condition(READY).map_or("NotSeen".into(), |ready| ready.reason.clone()),
        is_exhausted: condition(EXHAUSTED).is_some_and(|exhausted| exhausted.status == "True"),
        figures: PoolCapacity {
            counts: status.addresses.unwrap_or_default(),
            limit: pool.spec.max_ips,
            network: status.network.map(|network| network.name),
        },
        waiting,
        pool_id: status.pool_id,
    }
}

impl PoolSummary {
    fn colour(&self) -> AnsiColor {
        match self.figures.percent_used() {
            _ if self.is_exhausted => AnsiColor::Red,
            Some(95..) => AnsiColor::Red,
            Some(75..) => AnsiColor::Yellow,
            _ => AnsiColor::Green,
        }
    }

    fn row(&self, is_wide: bool) -> Vec<String> {
        let PoolCapacity { counts, limit, network } = &self.figures;
        let AddressCounts { total, allocated, free, cooling, failed, .. } = counts;
        let state = match self.ready.as_str() {
            "True" if self.is_exhausted => paint(AnsiColor::Red, "Exhausted"),
            "True" => paint(AnsiColor::Green, "Ready"),
            _ => paint(AnsiColor::Red, &self.reason),
        };
        let waiting = if self.waiting > 0 { paint(AnsiColor::Yellow, self.waiting) } else { "0".into() };
        let mut row = vec![
            self.namespace.clone(),
            self.name.clone(),
            bar([*allocated, *cooling, *failed], self.figures.capacity(), self.colour()),
            or_dash(self.figures.percent_used().map(|percent| format!("{percent}%"))),
            allocated.to_string(),
            free.to_string(),
            or_dash(*limit),
            waiting,
            state,
        ];
        if is_wide {
            row.extend([total, cooling, failed].map(ToString::to_string));
            row.extend([network, &self.pool_id].map(|text| or_dash(text.as_ref())));
        }
        row
    }
}

/// `█` allocated, `▒` cooling down, `×` unusable, `·` the rest. What is not zero has one cell at least.
fn bar(parts: [u32; 3], capacity: u32, colour: AnsiColor) -> String {
    let mut room = usize::from(BAR_WIDTH);
    let mut drawn = String::new();
    for (part, (sign, colour)) in parts.into_iter().zip([('█', colour), ('▒', AnsiColor::Cyan), ('×', AnsiColor::Red)])
    {
        let share = u64::from(part).saturating_mul(BAR_WIDTH.into()).checked_div(capacity.into()).unwrap_or_default();
        let cells = usize::try_from(share).unwrap_or(room).max(usize::from(part > 0)).min(room);
        room = room.saturating_sub(cells);
        if cells > 0 {
            drawn += &paint(colour, sign.to_string().repeat(cells));
        }
    }
    format!("[{drawn}{}]", "·".repeat(room))
}

impl Report for UsageReport {
    fn text(&self, is_wide: bool) -> String {
        let mut head = vec!["NAMESPACE", "POOL", "USED", "", "ALLOCATED", "FREE", "LIMIT", "WAITING", "STATE"];
        if is_wide {
            head.extend(["TOTAL", "COOLING", "FAILED", "NETWORK", "POOLID"]);
        }
        table(&head, &self.0.iter().map(|pool| pool.row(is_wide)).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(parts: [u32; 3], capacity: u32) -> String {
        anstream::adapter::strip_str(&bar(parts, capacity, AnsiColor::Green)).to_string()
    }

    #[test]
    fn a_bar_is_as_full_as_the_pool() {
        assert_eq!(drawn([0, 0, 0], 10), format!("[{}]", "·".repeat(24)));
        assert_eq!(drawn([10, 0, 0], 10), format!("[{}]", "█".repeat(24)));
        assert_eq!(drawn([5, 0, 0], 10), format!("[{}{}]", "█".repeat(12), "·".repeat(12)));
        assert_eq!(drawn([6, 3, 3], 12), format!("[{}{}{}]", "█".repeat(12), "▒".repeat(6), "×".repeat(6)));
    }

    #[test]
    fn a_bar_never_overflows_and_never_hides_what_there_is() {
        assert_eq!(drawn([20, 5, 5], 10), format!("[{}]", "█".repeat(24)));
        assert_eq!(drawn([1, 0, 0], 1000), format!("[█{}]", "·".repeat(23)));
        assert_eq!(drawn([0, 0, 0], 0), format!("[{}]", "·".repeat(24)));
    }

    #[test]
    fn nearly_full_is_yellow_and_full_is_red() {
        let colour = |allocated| {
            let mut pool = OpenStackFloatingIPPool::default();
            pool.spec.max_ips = Some(100);
            let counts = AddressCounts { allocated, ..AddressCounts::default() };
            pool.status.get_or_insert_default().addresses = Some(counts);
            summarize(&pool, 0).colour()
        };
        assert_eq!(
            [74, 75, 94, 95, 100].map(colour),
            [AnsiColor::Green, AnsiColor::Yellow, AnsiColor::Yellow, AnsiColor::Red, AnsiColor::Red]
        );
    }

    #[test]
    fn the_figures_of_a_pool_are_fields_of_its_summary() {
        let json = serde_json::to_value(summarize(&OpenStackFloatingIPPool::default(), 2)).expect("it is data");
        let fields = ["total", "allocated", "free", "cooling", "failed", "limit", "waiting", "network", "poolId"];
        assert!(fields.iter().all(|field| json.get(field).is_some()), "{json}");
    }
}
