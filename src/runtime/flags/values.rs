//! Flag values in the syntax of Go programs: addresses, durations, booleans.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

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

/// A proxy, or `none`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionalProxy(pub Option<HttpsProxy>);

impl FromStr for OptionalProxy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(if text == "none" || text.is_empty() { None } else { Some(text.parse()?) }))
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
