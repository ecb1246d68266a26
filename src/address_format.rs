//! The text forms of a set of addresses, for the allow-lists of firewalls: for `kubectl fippool list` and for a pool's
//! ConfigMap. In the order of numbers, IPv4 first.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

/// One address a line.
pub(crate) fn lines(addresses: &BTreeSet<IpAddr>) -> String {
    addresses.iter().map(|address| format!("{address}\n")).collect()
}

/// One address a line, as a range that contains only it.
pub(crate) fn cidrs(addresses: &BTreeSet<IpAddr>) -> String {
    addresses.iter().map(|address| format!("{}\n", IpNet::from(*address))).collect()
}

/// Replaces the content of two sets, as one transaction of `nft -f`; the rest of their table stays as it is. Empty sets are
/// declared too, so that rules can refer to them.
pub(crate) fn nft(addresses: &BTreeSet<IpAddr>) -> String {
    let mut text = String::from("add table inet fippool\n");
    for (set, type_, is_v4) in [("fippool_v4", "ipv4_addr", true), ("fippool_v6", "ipv6_addr", false)] {
        text += &format!("add set inet fippool {set} {{ type {type_}; }}\nflush set inet fippool {set}\n");
        let elements = addresses.iter().filter(|address| address.is_ipv4() == is_v4);
        let elements: Vec<String> = elements.map(ToString::to_string).collect();
        if !elements.is_empty() {
            text += &format!("add element inet fippool {set} {{ {} }}\n", elements.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> BTreeSet<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_are_in_the_order_of_numbers() {
        let addresses = addresses(&["2001:db8::7", "203.0.113.30", "203.0.113.9"]);
        assert_eq!(lines(&addresses), "203.0.113.9\n203.0.113.30\n2001:db8::7\n");
        assert_eq!(cidrs(&addresses), "203.0.113.9/32\n203.0.113.30/32\n2001:db8::7/128\n");
    }

    #[test]
    fn nft_gets_whole_sets_even_if_they_are_empty() {
        let text = nft(&addresses(&["203.0.113.30", "203.0.113.9"]));
        let expected = "add table inet fippool\n\
            add set inet fippool fippool_v4 { type ipv4_addr; }\n\
            flush set inet fippool fippool_v4\n\
            add element inet fippool fippool_v4 { 203.0.113.9, 203.0.113.30 }\n\
            add set inet fippool fippool_v6 { type ipv6_addr; }\n\
            flush set inet fippool fippool_v6\n";
        assert_eq!(text, expected);
        let text = nft(&addresses(&["2001:db8::7"]));
        assert!(text.contains("flush set inet fippool fippool_v4\nadd set"), "{text}");
        assert!(text.ends_with("add element inet fippool fippool_v6 { 2001:db8::7 }\n"), "{text}");
    }
}
