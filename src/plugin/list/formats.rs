//! The formats of the list: the table, names, comma-separated values, and allow-lists for firewalls.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anstyle::AnsiColor;
use jiff::Timestamp;

use super::AddressList;
use super::rows::AddressRow;
use crate::address_format;
use crate::plugin::cli::AddressState;
use crate::plugin::exit::Failure;
use crate::plugin::output::format::Format;
use crate::plugin::output::{self, Report, age, or_dash, paint, table};

/// As `kubectl get -o name` prints an IPAddress before its name.
const NAME_PREFIX: &str = "ipaddress.ipam.cluster.x-k8s.io/";

const CSV_HEADER: [&str; 11] =
    ["address", "state", "namespace", "pool", "claim", "machine", "cluster", "origin", "floatingIPID", "port", "since"];

pub(super) fn render(list: &AddressList, format: Option<&Format>, has_header: bool) -> Result<String, Failure> {
    Ok(match format {
        Some(Format::Name) => names(&list.items),
        Some(Format::Cidr) => address_format::cidrs(&addresses(&list.items)),
        Some(Format::Nft) => address_format::nft(&addresses(&list.items)),
        Some(Format::Csv) => csv(&list.items, has_header),
        None | Some(Format::Wide) if !has_header => without_first_line(&output::render(list, format)?),
        _ => output::render(list, format)?,
    })
}

fn without_first_line(text: &str) -> String {
    text.split_once('\n').map_or_else(String::new, |(_, rest)| rest.to_owned())
}

/// Those that an IPAddress names; the others have no object.
fn names(rows: &[AddressRow]) -> String {
    let names = rows.iter().filter_map(|row| row.ip_address.as_ref());
    names.map(|name| format!("{NAME_PREFIX}{name}\n")).collect()
}

/// Two pools may list the same address.
fn addresses(rows: &[AddressRow]) -> BTreeSet<IpAddr> {
    rows.iter().map(|row| row.address).collect()
}

fn csv(rows: &[AddressRow], has_header: bool) -> String {
    let header = has_header.then(|| CSV_HEADER.map(String::from));
    let rows = rows.iter().map(|row| {
        [
            row.address.to_string(),
            row.state.to_string(),
            row.namespace.clone(),
            row.pool.clone(),
            row.claim.clone().unwrap_or_default(),
            row.machine.clone().unwrap_or_default(),
            row.cluster.clone().unwrap_or_default(),
            row.origin.clone().unwrap_or_default(),
            row.floating_ip_id.clone().unwrap_or_default(),
            row.port.clone().unwrap_or_default(),
            row.since.map(|since| since.to_string()).unwrap_or_default(),
        ]
    });
    header.into_iter().chain(rows).map(|fields| fields.map(|field| csv_field(&field)).join(",") + "\n").collect()
}

/// Quoted as RFC 4180 demands. What a spreadsheet would take for a formula begins with a quote: labels and annotations are
/// texts of others.
fn csv_field(field: &str) -> String {
    let field =
        if field.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{field}") } else { field.to_owned() };
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}

impl std::fmt::Display for AddressState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The names are those of the variants.
        std::fmt::Debug::fmt(self, f)
    }
}

impl AddressState {
    fn colour(self) -> AnsiColor {
        match self {
            Self::Allocated | Self::Free => AnsiColor::Green,
            Self::Releasing | Self::Cooling | Self::Reserved | Self::Listed | Self::Gone => AnsiColor::Cyan,
            Self::Orphan | Self::Stray => AnsiColor::Yellow,
            Self::Failed | Self::Missing => AnsiColor::Red,
        }
    }
}

impl AddressList {
    pub(super) fn head(&self, is_wide: bool) -> Vec<&'static str> {
        let mut head = if self.is_all { vec!["NAMESPACE"] } else { Vec::new() };
        head.extend(["ADDRESS", "STATE", "POOL", "CLAIM", "MACHINE", "CLUSTER"]);
        head.extend(self.has_ports.then_some("PORT"));
        head.push("AGE");
        if is_wide {
            head.extend(["ORIGIN", "FLOATING-IP", "MESSAGE"]);
        }
        head
    }

    pub(super) fn cells(&self, is_wide: bool) -> Vec<Vec<String>> {
        let now = Timestamp::now();
        self.items.iter().map(|row| self.row(row, is_wide, now)).collect()
    }

    fn row(&self, row: &AddressRow, is_wide: bool, now: Timestamp) -> Vec<String> {
        let mut cells = if self.is_all { vec![row.namespace.clone()] } else { Vec::new() };
        cells.extend([row.address.to_string(), paint(row.state.colour(), row.state), row.pool.clone()]);
        cells.extend([&row.claim, &row.machine, &row.cluster].map(|text| or_dash(text.as_ref())));
        if self.has_ports {
            cells.push(or_dash(row.port.as_ref()));
        }
        cells.push(or_dash(row.since.map(|since| age(since, now))));
        if is_wide {
            cells.extend([&row.origin, &row.floating_ip_id, &row.message].map(|text| or_dash(text.as_ref())));
        }
        cells
    }
}

impl Report for AddressList {
    fn text(&self, is_wide: bool) -> String {
        if self.items.is_empty() {
            return String::new();
        }
        table(&self.head(is_wide), &self.cells(is_wide))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_name::ObjectName;

    fn list(addresses: &[&str]) -> AddressList {
        let pool = ObjectName::new("team", "public");
        let row = |address: &&str| AddressRow::new(&pool, address.parse().unwrap(), AddressState::Allocated);
        AddressList { items: addresses.iter().map(row).collect(), is_all: false, has_ports: false }
    }

    fn rendered(list: &AddressList, format: Format) -> String {
        render(list, Some(&format), true).unwrap()
    }

    #[test]
    fn cidrs_are_sorted_and_each_is_there_once() {
        let list = list(&["203.0.113.30", "2001:db8::7", "203.0.113.9", "203.0.113.30"]);
        assert_eq!(rendered(&list, Format::Cidr), "203.0.113.9/32\n203.0.113.30/32\n2001:db8::7/128\n");
        assert_eq!(rendered(&super::tests::list(&[]), Format::Cidr), "");
    }

    #[test]
    fn comma_separated_values_have_a_header_and_quotes_where_needed() {
        let mut list = list(&["203.0.113.9"]);
        list.items[0].cluster = Some("a,\"b\"".into());
        list.items[0].machine = Some("=cmd()".into());
        let text = rendered(&list, Format::Csv);
        let expected = "address,state,namespace,pool,claim,machine,cluster,origin,floatingIPID,port,since\n\
            203.0.113.9,Allocated,team,public,,'=cmd(),\"a,\"\"b\"\"\",,,,\n";
        assert_eq!(text, expected);
        let bare = render(&list, Some(&Format::Csv), false).unwrap();
        assert_eq!(bare.lines().count(), 1);
    }

    #[test]
    fn only_objects_have_names() {
        let mut list = list(&["203.0.113.9", "203.0.113.10"]);
        list.items[1].ip_address = Some("web-0".into());
        assert_eq!(rendered(&list, Format::Name), "ipaddress.ipam.cluster.x-k8s.io/web-0\n");
    }

    #[test]
    fn the_table_has_namespaces_and_ports_where_they_are_asked_for() {
        let mut list = list(&["203.0.113.9"]);
        let text = |list: &AddressList, has_header| {
            let text = render(list, None, has_header).unwrap();
            anstream::adapter::strip_str(&text).to_string()
        };
        let expected = "ADDRESS      STATE      POOL    CLAIM  MACHINE  CLUSTER  AGE\n\
            203.0.113.9  Allocated  public  -      -        -        -\n";
        assert_eq!(text(&list, true), expected);
        (list.is_all, list.has_ports) = (true, true);
        let expected = "NAMESPACE  ADDRESS      STATE      POOL    CLAIM  MACHINE  CLUSTER  PORT  AGE\n\
            team       203.0.113.9  Allocated  public  -      -        -        -     -\n";
        assert_eq!(text(&list, true), expected);
        assert_eq!(text(&list, false).lines().count(), 1);
    }

    #[test]
    fn the_data_is_an_object_with_items() {
        let data = serde_json::to_value(list(&["203.0.113.9"])).unwrap();
        assert_eq!(
            (&data["items"][0]["address"], &data["items"][0]["state"]),
            (&"203.0.113.9".into(), &"Allocated".into())
        );
        assert_eq!(data.as_object().unwrap().len(), 1);
        let fields = ["claim", "ipAddress", "machine", "cluster", "origin", "floatingIPID", "port", "since", "message"];
        assert!(fields.iter().all(|field| data["items"][0].get(field).is_some()), "{data}");
    }
}
