//! `usage`: how full the pools are, from what the controllers last wrote into their status.

use std::collections::BTreeMap;

use anstyle::AnsiColor;
use kube::{Api, ResourceExt, api::ListParams};
use serde::Serialize;

use super::cli::{Format, Pools};
use super::exit::{Answer, Failure};
use super::output::{self, Report, paint, style, table};
use super::session::Session;
use crate::api::conditions::{EXHAUSTED, READY};
use crate::api::{IpAddressClaim, OpenStackFloatingIPPool};

/// How many characters a bar has.
const WIDTH: usize = 24;

/// One pool.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
struct Usage {
    namespace: String,
    name: String,
    /// `True`, `False` or `Unknown`.
    ready: String,
    reason: String,
    is_exhausted: bool,
    total: u32,
    allocated: u32,
    free: u32,
    cooling: u32,
    failed: u32,
    /// `spec.maxIPs`.
    limit: Option<u32>,
    /// Claims without an address.
    waiting: usize,
    network: Option<String>,
    pool_id: Option<String>,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Usages(Vec<Usage>);

/// Prints how full the pools are.
pub(super) async fn run(session: &Session, args: &Pools, format: Option<Format>) -> Result<Answer, Failure> {
    let version = session.version().await?;
    let (pools, claims): (Api<OpenStackFloatingIPPool>, Api<IpAddressClaim>) = if session.is_all {
        (Api::all(session.client.clone()), Api::all_with(session.client.clone(), &version))
    } else {
        let (client, namespace) = (session.client.clone(), session.namespace.as_str());
        (Api::namespaced(client.clone(), namespace), Api::namespaced_with(client, namespace, &version))
    };
    let failed = |error| Failure::kubernetes("list pools and claims", &error);
    let listed = pools.list(&ListParams::default()).await.map_err(failed)?;
    let mut pools = session.select(listed.into_iter().map(Into::into).collect(), &args.pools)?;
    pools.sort_by_key(|pool| (pool.namespace(), pool.name_any()));
    let mut waiting: BTreeMap<(Option<String>, String), usize> = BTreeMap::new();
    for claim in claims.list(&ListParams::default()).await.map_err(failed)? {
        let has_address = claim.status.as_ref().is_some_and(|status| status.address_ref.is_some());
        if claim.spec.pool_ref.is_ours() && !has_address && claim.metadata.deletion_timestamp.is_none() {
            *waiting.entry((claim.namespace(), claim.spec.pool_ref.name)).or_default() += 1;
        }
    }
    let count = |pool: &OpenStackFloatingIPPool| waiting.get(&(pool.namespace(), pool.name_any())).copied();
    let usages = Usages(pools.iter().map(|pool| usage(pool, count(pool).unwrap_or_default())).collect());
    if usages.0.is_empty() && !matches!(format, Some(Format::Json | Format::Yaml)) {
        output::note(&format!("there is no OpenStackFloatingIPPool {}", session.place()));
        return Ok(Answer::Yes);
    }
    output::print(&usages, format)?;
    Ok(Answer::Yes)
}

fn usage(pool: &OpenStackFloatingIPPool, waiting: usize) -> Usage {
    let status = pool.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
    let counts = status.addresses.unwrap_or_default();
    Usage {
        namespace: pool.namespace().unwrap_or_default(),
        name: pool.name_any(),
        ready: condition(READY).map_or("Unknown".into(), |ready| ready.status.clone()),
        reason: condition(READY).map_or("NotSeen".into(), |ready| ready.reason.clone()),
        is_exhausted: condition(EXHAUSTED).is_some_and(|exhausted| exhausted.status == "True"),
        total: counts.total,
        allocated: counts.allocated,
        free: counts.free,
        cooling: counts.cooling,
        failed: counts.failed,
        limit: pool.spec.max_ips,
        waiting,
        network: status.network.map(|network| network.name),
        pool_id: status.pool_id,
    }
}

impl Usage {
    /// What the bar is full at: the limit, else everything that the pool has or could give without creating.
    fn capacity(&self) -> u32 {
        let known = self.used().saturating_add(self.free).saturating_add(self.failed);
        self.limit.map_or(known.max(self.total), |limit| limit.max(self.used()))
    }

    fn used(&self) -> u32 {
        self.allocated.saturating_add(self.cooling)
    }

    /// How many of a hundred are in use; none where there is nothing to use.
    fn percent(&self) -> Option<u32> {
        let full = u64::from(self.capacity());
        u32::try_from((u64::from(self.used()) * 100).checked_div(full)?).ok()
    }

    fn colour(&self) -> AnsiColor {
        match self.percent() {
            _ if self.is_exhausted => AnsiColor::Red,
            Some(95..) => AnsiColor::Red,
            Some(75..) => AnsiColor::Yellow,
            _ => AnsiColor::Green,
        }
    }

    fn row(&self, is_wide: bool) -> Vec<String> {
        let percent = self.percent().map_or("-".into(), |percent| format!("{percent}%"));
        let limit = self.limit.map_or("-".into(), |limit| limit.to_string());
        let ready = match self.ready.as_str() {
            "True" if self.is_exhausted => paint(style(AnsiColor::Red), "Exhausted"),
            "True" => paint(style(AnsiColor::Green), "Ready"),
            _ => paint(style(AnsiColor::Red), &self.reason),
        };
        let waiting = if self.waiting > 0 { paint(style(AnsiColor::Yellow), self.waiting) } else { "0".into() };
        let bar = bar([self.allocated, self.cooling, self.failed], self.capacity(), self.colour());
        let figures = [self.allocated, self.free].map(|figure| figure.to_string());
        let mut row = vec![self.namespace.clone(), self.name.clone(), bar, percent];
        row.extend(figures);
        row.extend([limit, waiting, ready]);
        if is_wide {
            row.extend([self.total, self.cooling, self.failed].map(|figure| figure.to_string()));
            row.extend([&self.network, &self.pool_id].map(|text| text.clone().unwrap_or("-".into())));
        }
        row
    }
}

/// `█` in use, `▒` on its way out, `×` not to be given, `·` the rest. Whatever there is shows, however little.
fn bar(parts: [u32; 3], full: u32, colour: AnsiColor) -> String {
    let mut room = WIDTH;
    let mut drawn = String::new();
    for (part, (sign, colour)) in parts.into_iter().zip([('█', colour), ('▒', AnsiColor::Cyan), ('×', AnsiColor::Red)])
    {
        let share = (u64::from(part) * WIDTH as u64).checked_div(u64::from(full)).unwrap_or_default();
        let cells = usize::try_from(share).unwrap_or(WIDTH).max(usize::from(part > 0)).min(room);
        room -= cells;
        if cells > 0 {
            drawn += &paint(style(colour), sign.to_string().repeat(cells));
        }
    }
    format!("[{drawn}{}]", "·".repeat(room))
}

impl Report for Usages {
    fn text(&self, is_wide: bool) -> String {
        let mut head = vec!["NAMESPACE", "POOL", "USED", "", "ALLOCATED", "FREE", "LIMIT", "WAITING", "STATE"];
        if is_wide {
            head.extend(["TOTAL", "COOLING", "FAILED", "NETWORK", "POOLID"]);
        }
        table(&head, &self.0.iter().map(|usage| usage.row(is_wide)).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(parts: [u32; 3], full: u32) -> String {
        anstream::adapter::strip_str(&bar(parts, full, AnsiColor::Green)).to_string()
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

    fn pool(max_ips: Option<u32>, allocated: u32, free: u32) -> Usage {
        let mut pool = OpenStackFloatingIPPool::default();
        pool.spec.max_ips = max_ips;
        let status = pool.status.get_or_insert_default();
        status.addresses =
            Some(crate::api::pool::AddressCounts { total: allocated, allocated, free, ..Default::default() });
        usage(&pool, 0)
    }

    #[test]
    fn the_limit_is_what_a_pool_is_measured_by_else_what_it_has() {
        assert_eq!(pool(Some(4), 1, 9).percent(), Some(25));
        assert_eq!(pool(None, 1, 3).percent(), Some(25));
        assert_eq!(pool(None, 0, 0).percent(), None);
        assert_eq!(pool(Some(2), 5, 0).percent(), Some(100), "the limit was lowered");
        assert_eq!(pool(Some(0), 0, 0).percent(), None);
    }

    #[test]
    fn absurd_figures_of_a_status_do_not_overflow() {
        let pool = pool(None, u32::MAX, u32::MAX);
        assert_eq!((pool.capacity(), pool.percent()), (u32::MAX, Some(100)));
    }

    #[test]
    fn nearly_full_is_yellow_and_full_is_red() {
        let colour = |allocated| pool(Some(100), allocated, 0).colour();
        assert_eq!(
            [74, 75, 94, 95, 100].map(colour),
            [AnsiColor::Green, AnsiColor::Yellow, AnsiColor::Yellow, AnsiColor::Red, AnsiColor::Red]
        );
    }
}
