//! The formats of `-o`.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

use super::jsonpath::Template;

#[derive(Clone, PartialEq, Debug)]
pub(in crate::plugin) enum Format {
    /// A table with more columns.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// What a template selects from the data.
    JsonPath(Template),
    /// The IPAddresses, as `kubectl get -o name` prints them.
    Name,
    /// An allow-list: one address with its prefix length a line.
    Cidr,
    /// An allow-list: sets for `nft -f`.
    Nft,
    /// Comma-separated values with a header.
    Csv,
}

impl Format {
    /// Whether a program reads it: an empty result is then an empty document.
    pub(in crate::plugin) fn is_for_programs(&self) -> bool {
        *self != Self::Wide
    }

    /// The name of a format that only `list` has.
    pub(in crate::plugin) fn only_in_list(&self) -> Option<&'static str> {
        match self {
            Self::Wide | Self::Json | Self::Yaml | Self::JsonPath(_) => None,
            Self::Name => Some("name"),
            Self::Cidr => Some("cidr"),
            Self::Nft => Some("nft"),
            Self::Csv => Some("csv"),
        }
    }
}

/// The name, its help, and the format; jsonpath has a template.
const FORMATS: [(&str, &str, Option<Format>); 8] = [
    ("wide", "A table with more columns", Some(Format::Wide)),
    ("json", "One JSON document", Some(Format::Json)),
    ("yaml", "One YAML document", Some(Format::Yaml)),
    ("jsonpath=TEMPLATE", "What the template selects, such as '{.items[*].address}'", None),
    ("name", "list: the names of the IPAddresses", Some(Format::Name)),
    ("cidr", "list: an allow-list, one CIDR a line", Some(Format::Cidr)),
    ("nft", "list: an allow-list, as sets for `nft -f`", Some(Format::Nft)),
    ("csv", "list: comma-separated values", Some(Format::Csv)),
];

/// Reads `-o`.
#[derive(Clone)]
pub(in crate::plugin) struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Format, clap::Error> {
        StringValueParser::new().try_map(|text| parse(&text)).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(FORMATS.into_iter().map(|(name, help, _)| PossibleValue::new(name).help(help))))
    }
}

fn parse(text: &str) -> Result<Format, String> {
    if let Some(template) = text.strip_prefix("jsonpath=") {
        return Template::parse(template).map(Format::JsonPath);
    }
    let format = FORMATS.into_iter().find(|(name, ..)| *name == text).and_then(|(.., format)| format);
    format.ok_or_else(|| {
        let names = FORMATS.map(|(name, ..)| name).join(", ");
        format!("the formats are {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_by_its_name() {
        assert_eq!(parse("nft"), Ok(Format::Nft));
        assert!(matches!(parse("jsonpath={.items}"), Ok(Format::JsonPath(_))));
        for unknown in ["", "JSON", "jsonpath", "custom-columns=A:.a", "go-template={{.}}", "jsonpath=TEMPLATE2"] {
            assert!(parse(unknown).is_err(), "{unknown}");
        }
        assert!(parse("table").unwrap_err().contains("wide, json, yaml, jsonpath=TEMPLATE, name"));
    }
}
