//! How answers look: tables and marks on a terminal, JSON and YAML for programs. Colours and progress are for terminals.

use std::io::{IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::cli::Format;
use super::exit::Failure;

/// Something that a command found, as data and as text.
pub(super) trait Report: Serialize {
    /// For people, with styles; `is_wide` asks for more columns.
    fn text(&self, is_wide: bool) -> String;
}

/// Prints a report. Styles are left out where nobody sees them: no terminal, `NO_COLOR`, `TERM=dumb`.
pub(super) fn print(report: &impl Report, format: Option<Format>) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Asked(format!("print: {error}"));
    let text = match format {
        Some(Format::Json) => serde_json::to_string_pretty(report).map_err(|error| failed(&error))? + "\n",
        Some(Format::Yaml) => yaml(report).map_err(|error| failed(&error))?,
        None | Some(Format::Wide) => report.text(format.is_some()),
    };
    match anstream::stdout().write_all(text.as_bytes()) {
        // Whoever reads has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| failed(&error)),
    }
}

/// One YAML document.
pub(super) fn yaml(value: &impl Serialize) -> Result<String, serde_saphyr::ser_error::Error> {
    serde_saphyr::to_string(value)
}

/// Says on stderr why a command ended.
pub(super) fn complain(line: &str) {
    let red = style(AnsiColor::Red);
    let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {line}");
}

/// Says on stderr what the answer leaves out.
pub(super) fn note(line: &str) {
    let yellow = style(AnsiColor::Yellow);
    let _ = writeln!(anstream::stderr(), "{yellow}note:{yellow:#} {line}");
}

/// What takes long, on one line of a terminal's stderr that goes when it is done.
pub(super) struct Progress {
    is_seen: bool,
}

impl Progress {
    /// Begins.
    pub(super) fn new() -> Self {
        Self { is_seen: std::io::stderr().is_terminal() }
    }

    /// What is done now.
    pub(super) fn step(&self, what: &str) {
        if self.is_seen {
            eprint!("\r\x1b[2K{what} …");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_seen {
            eprint!("\r\x1b[2K");
        }
    }
}

/// A colour of the terminal's own.
pub(super) fn style(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(colour.into()))
}

/// Text in a style.
pub(super) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Bold, for headings.
pub(super) fn bold(text: impl std::fmt::Display) -> String {
    paint(Style::new().bold(), text)
}

/// Columns as wide as their widest cell, two blanks apart, as kubectl has them; styles take no room.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |text: &str| anstream::adapter::strip_str(text).to_string().chars().count();
    let column = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell));
        cells.chain([width(head[at])]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(column).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, wide)| format!("{cell}{}", " ".repeat(wide - width(cell))));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let head = line(&mut head.iter().copied());
    head + &rows.iter().map(|row| line(&mut row.iter().map(String::as_str))).collect::<String>()
}

/// Names and what they are, one a line, indented.
pub(super) fn fields(fields: &[(&str, String)]) -> String {
    let widest = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    fields.iter().map(|(name, value)| format!("  {name:widest$}  {value}\n")).collect()
}

/// How long ago, as kubectl says it.
pub(super) fn age(since: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(since))
}

/// A duration in its two largest units, as kubectl says it.
pub(super) fn duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0..2) => format!("{seconds}s"),
        (0, 0, 2..10) if seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        (0, 0, _) => format!("{minutes}m"),
        (0, 1..8, 1..) => format!("{hours}h{minutes}m"),
        (0, ..) => format!("{hours}h"),
        (1..8, 1.., _) => format!("{days}d{hours}h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_their_style() {
        let rows = [vec![bold("public"), "1".into()], vec!["a-longer-one".into(), "22".into()]];
        let text = anstream::adapter::strip_str(&table(&["POOL", "FREE"], &rows)).to_string();
        assert_eq!(text, "POOL          FREE\npublic        1\na-longer-one  22\n");
    }

    #[test]
    fn durations_read_as_kubectls() {
        let said = |seconds| duration(SignedDuration::from_secs(seconds));
        let table = [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (7 * 3600 + 60, "7h1m"),
            (8 * 3600 + 60, "8h"),
            (86400, "1d"),
            (90000, "1d1h"),
            (30 * 86400, "30d"),
        ];
        for (seconds, expected) in table {
            assert_eq!(said(seconds), expected);
        }
    }

    #[test]
    fn fields_line_up() {
        assert_eq!(fields(&[("a", "1".into()), ("long", "2".into())]), "  a     1\n  long  2\n");
    }
}
