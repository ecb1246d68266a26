//! `list --watch`: the rows, and then each row that changes, as `kubectl get --watch` prints objects.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::net::IpAddr;

use futures::future::FutureExt;
use futures::stream::{self, BoxStream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::rows::AddressRow;
use super::{AddressList, Objects, formats, rows_of, select};
use crate::api::guarded::Guarded;
use crate::api::{IpAddress, IpAddressClaim, OpenStackFloatingIPPool};
use crate::plugin::cli::{AddressState, List};
use crate::plugin::exit::{Answer, Failure};
use crate::plugin::output::format::Format;
use crate::plugin::output::{self, Columns};
use crate::plugin::readable::read_or_note;
use crate::plugin::session::PluginSession;
use crate::text::on_terminal;

/// One event of a watch, which is in the store already.
type Changes = BoxStream<'static, Result<(), watcher::Error>>;

/// The objects in scope, as the watches last delivered them.
struct Followed {
    pools: Store<OpenStackFloatingIPPool>,
    claims: Store<IpAddressClaim>,
    addresses: Store<IpAddress>,
}

/// Prints the list, and then what changes. Ends when its reader does.
pub(super) async fn print_changes(
    session: &PluginSession,
    args: &List,
    format: Option<&Format>,
    list: AddressList,
) -> Result<Answer, Failure> {
    let version = session.version().await?;
    let config = watcher::Config::default().timeout(session.watch_seconds);
    let selected = watcher::Config { label_selector: args.selector.clone(), ..config.clone() };
    let (pools, changed_pools) = follow(session.pools(), (), config.clone());
    let (claims, changed_claims) = follow(session.ipam_objects(version), version, selected);
    let (addresses, changed_addresses) = follow(session.ipam_objects(version), version, config);
    let followed = Followed { pools, claims, addresses };
    let mut changes = stream::select_all([changed_pools, changed_claims, changed_addresses]);

    let mut printer = Printer { format, columns: None, last_noted: String::new() };
    if !printer.print(&list, !args.no_headers)? {
        return Ok(Answer::Yes);
    }
    let mut last = list.items;
    while let Some(change) = changes.next().await {
        printer.note_interruption(change)?;
        let Some(objects) = followed.objects() else { continue };
        // A named pool that is deleted leaves no rows, and is not an error any more.
        let rows = rows_of(session, args, objects).unwrap_or_default();
        let now = select(session, args, format, rows);
        let changed = changed_rows(&last, &now.items);
        last.clone_from(&now.items);
        if !changed.is_empty() && !printer.print(&AddressList { items: changed, ..now }, false)? {
            break;
        }
    }
    Ok(Answer::Yes)
}

/// The rows that are new or different, and those that are gone.
fn changed_rows(last: &[AddressRow], now: &[AddressRow]) -> Vec<AddressRow> {
    type Key<'a> = (&'a str, &'a str, IpAddr, Option<&'a str>);
    let before: BTreeMap<Key<'_>, &AddressRow> = last.iter().map(|row| (row.key(), row)).collect();
    let after: BTreeMap<Key<'_>, &AddressRow> = now.iter().map(|row| (row.key(), row)).collect();
    let gone = before.iter().filter(|(key, _)| !after.contains_key(*key));
    let gone = gone.map(|(_, row)| AddressRow { state: AddressState::Gone, ..(*row).clone() });
    let new = after.iter().filter(|(key, row)| before.get(*key) != Some(*row)).map(|(_, row)| (*row).clone());
    gone.chain(new).collect()
}

impl Followed {
    /// None until each kind was listed once.
    fn objects(&self) -> Option<Objects> {
        fn is_listed<K>(store: &Store<K>) -> bool
        where
            K: Resource + Clone + 'static,
            K::DynamicType: Eq + Hash + Clone,
        {
            store.wait_until_ready().now_or_never().is_some_and(|result| result.is_ok())
        }
        let is_complete = is_listed(&self.pools) && is_listed(&self.claims) && is_listed(&self.addresses);
        is_complete.then(|| Objects {
            pools: self.pools.state(),
            claims: self.claims.state(),
            addresses: self.addresses.state(),
        })
    }
}

/// Watches a kind into a store.
fn follow<K>(api: Api<Guarded<K>>, kind: K::DynamicType, config: watcher::Config) -> (Store<K>, Changes)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Send + Sync,
    Guarded<K>: Resource + DeserializeOwned,
{
    let mut writer = Writer::new(kind);
    let store = writer.as_reader();
    let events = watcher(api, config).default_backoff();
    let changes = events.map(move |event| {
        if let Some(event) = readable(event?) {
            writer.apply_watcher_event(&event);
        }
        Ok(())
    });
    (store, changes.boxed())
}

fn readable<K>(event: watcher::Event<Guarded<K>>) -> Option<watcher::Event<K>> {
    Some(match event {
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitDone => watcher::Event::InitDone,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(read_or_note(object)?),
        watcher::Event::Apply(object) => watcher::Event::Apply(read_or_note(object)?),
        watcher::Event::Delete(object) => watcher::Event::Delete(read_or_note(object)?),
    })
}

struct Printer<'a> {
    format: Option<&'a Format>,
    /// Those of the first table: what changes is printed below it.
    columns: Option<Columns>,
    last_noted: String,
}

impl Printer<'_> {
    /// Returns false once the reader has closed the pipe.
    fn print(&mut self, list: &AddressList, has_header: bool) -> Result<bool, Failure> {
        let text = match self.format {
            None | Some(Format::Wide) => self.table(list, has_header),
            Some(Format::Yaml) => format!("---\n{}", output::render(list, self.format)?),
            format => formats::render(list, format, has_header)?,
        };
        output::write(&text)
    }

    fn table(&mut self, list: &AddressList, has_header: bool) -> String {
        let is_wide = self.format.is_some();
        let (head, cells) = (list.head(is_wide), list.cells(is_wide));
        let columns = self.columns.get_or_insert_with(|| Columns::of(&head, &cells));
        let head = if has_header { columns.line(head.iter().copied()) } else { String::new() };
        let text = head + &cells.iter().map(|row| columns.line(row.iter().map(String::as_str))).collect::<String>();
        on_terminal(&text).into_owned()
    }

    /// A watch that is interrupted begins again. One that is forbidden never would.
    fn note_interruption(&mut self, change: Result<(), watcher::Error>) -> Result<(), Failure> {
        let Err(error) = change else {
            self.last_noted.clear();
            return Ok(());
        };
        if let watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause) = &error
            && let kube::Error::Api(status) = cause
            && status.code == 403
        {
            return Err(Failure::kubernetes("watch pools, claims and addresses", cause));
        }
        let problem = error.to_string();
        if problem != self.last_noted {
            output::note(&format!("the watch was interrupted, and begins again: {problem}"));
            self.last_noted = problem;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_name::ObjectName;

    #[test]
    fn only_what_changed_is_printed_again() {
        let pool = ObjectName::new("team", "public");
        let row = |last: u8, state| AddressRow::new(&pool, IpAddr::from([203, 0, 113, last]), state);
        let before = [row(1, AddressState::Allocated), row(2, AddressState::Allocated), row(3, AddressState::Listed)];
        let after = [row(1, AddressState::Allocated), row(2, AddressState::Releasing), row(4, AddressState::Listed)];
        assert_eq!(
            changed_rows(&before, &after),
            [row(3, AddressState::Gone), row(2, AddressState::Releasing), row(4, AddressState::Listed)]
        );
        assert_eq!(changed_rows(&after, &after), []);
    }

    #[test]
    fn a_watch_that_is_forbidden_ends_and_others_begin_again() {
        let mut printer = Printer { format: None, columns: None, last_noted: String::new() };
        let answer = |code| {
            let status = kube::core::Status { code, ..kube::core::Status::failure("no", "Reason") };
            Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
        };
        assert!(printer.note_interruption(answer(403)).is_err());
        assert!(printer.note_interruption(answer(500)).is_ok());
        assert!(!printer.last_noted.is_empty(), "it was told once");
        assert!(printer.note_interruption(Ok(())).is_ok() && printer.last_noted.is_empty());
    }
}
