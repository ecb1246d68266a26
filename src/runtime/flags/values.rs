//! Flag values in the syntax of Go programs: addresses, durations, booleans; and lists of namespaces.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::object_name::is_name;
use crate::openstack::HttpsProxy;

/// The address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// `0` or an empty value: no server.
    Off,
    /// `:port`: this port on every interface; 0 for any free port.
    AnyHost(u16),
    /// `host:port`.
    Host(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == "0" {
            return Ok(Self::Off);
        }
        let expected = "expected `host:port`, `:port`, or `0` for no server";
        let (host, port) = text.rsplit_once(':').ok_or(expected)?;
        let port = port.parse().map_err(|_| expected)?;
        Ok(if host.is_empty() { Self::AnyHost(port) } else { Self::Host(text.to_owned()) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::AnyHost(port) => write!(f, ":{port}"),
            Self::Host(address) => f.write_str(address),
        }
    }
}

/// Servers, separated by commas. clusterctl takes an empty default for none, so a comma alone is an empty list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Servers(pub String);

impl FromStr for Servers {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let servers: Vec<&str> = text.split(',').map(str::trim).filter(|server| !server.is_empty()).collect();
        Ok(Self(servers.join(",")))
    }
}

/// A proxy, or `none`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionalProxy(pub Option<HttpsProxy>);

impl FromStr for OptionalProxy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(if text == "none" || text.is_empty() { None } else { Some(text.parse()?) }))
    }
}

/// Names of namespaces, separated by commas; `*` for all of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Namespaces {
    has_all: bool,
    named: BTreeSet<String>,
}

impl Namespaces {
    pub fn all() -> Self {
        Self { has_all: true, named: BTreeSet::new() }
    }

    pub fn is_empty(&self) -> bool {
        !self.has_all && self.named.is_empty()
    }

    pub fn contains(&self, namespace: &str) -> bool {
        self.has_all || self.named.contains(namespace)
    }
}

impl FromStr for Namespaces {
    type Err = String;

    /// clusterctl takes an empty default for none, so a comma alone is an empty list.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut namespaces = Self::default();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "*" => namespaces.has_all = true,
                name if is_name(name) && !name.contains('.') => namespaces.named.extend([name.to_owned()]),
                name => return Err(format!("{name:?} is not the name of a namespace")),
            }
        }
        Ok(namespaces)
    }
}

/// `15s`, `1m30s`, `1.5h`, `300ms`, `0`; never negative.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    // jiff explains a number without a unit at length; the common mistake deserves a short message.
    let parsed = text.parse::<jiff::SignedDuration>().ok().filter(|_| text.starts_with(|c: char| c.is_ascii_digit()));
    parsed
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "expected a duration such as `15s`, `1m30s` or `10m`".into())
}

/// As Go's `strconv.ParseBool`.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected `true` or `false`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_as_in_go() {
        for (text, expected) in [
            ("", Ok(Address::Off)),
            ("0", Ok(Address::Off)),
            (":8443", Ok(Address::AnyHost(8443))),
            (":0", Ok(Address::AnyHost(0))),
            ("127.0.0.1:0", Ok(Address::Host("127.0.0.1:0".into()))),
            ("[::1]:9440", Ok(Address::Host("[::1]:9440".into()))),
            ("localhost:9440", Ok(Address::Host("localhost:9440".into()))),
            ("8443", Err(())),
            (":http", Err(())),
            (":70000", Err(())),
        ] {
            assert_eq!(text.parse::<Address>().map_err(drop), expected, "{text:?}");
        }
    }

    #[test]
    fn namespaces_are_a_list_which_may_be_empty() {
        let parse = |text: &str| text.parse::<Namespaces>();
        for empty in ["", ",", " , "] {
            assert!(parse(empty).is_ok_and(|namespaces| namespaces.is_empty()), "{empty:?}");
        }
        let two = parse("capo-system, shared").unwrap();
        assert!(two.contains("capo-system") && two.contains("shared") && !two.contains("other") && !two.is_empty());
        assert_eq!(parse("*"), Ok(Namespaces::all()));
        assert!(Namespaces::all().contains("any") && !Namespaces::all().is_empty());
        for bad in ["Capo", "a.b", "a/b", "capo-system,-a", "**"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, expected) in [
            ("15s", Some(15_000)),
            ("1m30s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            ("300ms", Some(300)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("10m0s", Some(600_000)),
            ("1h0m0s", Some(3_600_000)),
            ("15", None),
            ("-1s", None),
            ("", None),
            ("soon", None),
        ] {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_millis), "{text:?}");
        }
    }
}
