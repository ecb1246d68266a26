//! Prints reports: tables for people, JSON, YAML and jsonpath for programs. Colours and progress appear only on terminals.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::exit::Failure;
use crate::text::on_terminal;
use format::Format;

pub(super) mod format;
mod jsonpath;

/// What a command prints: serialized for programs, as text for people.
pub(crate) trait Report: Serialize {
    /// With terminal styles; `is_wide` adds columns.
    fn text(&self, is_wide: bool) -> String;
}

/// Prints to stdout, without styles where the terminal shows none (no terminal, `NO_COLOR`, `TERM=dumb`).
pub(super) fn print(report: &impl Report, format: Option<&Format>) -> Result<(), Failure> {
    write(&render(report, format)?).map(drop)
}

/// What [`print`] prints.
pub(super) fn render(report: &impl Report, format: Option<&Format>) -> Result<String, Failure> {
    match format {
        Some(Format::Json) => Ok(serde_json::to_string_pretty(report).map_err(|error| cannot_print(&error))? + "\n"),
        Some(Format::Yaml) => serde_saphyr::to_string(report).map_err(|error| cannot_print(&error)),
        Some(Format::JsonPath(template)) => {
            let data = serde_json::to_value(report).map_err(|error| cannot_print(&error))?;
            template.render(&data).map_err(|error| Failure::Usage(format!("-o jsonpath: {error}")))
        }
        None => Ok(on_terminal(&report.text(false)).into_owned()),
        // The others are those of `list` alone.
        Some(Format::Wide | Format::Name | Format::Cidr | Format::Nft | Format::Csv) => {
            Ok(on_terminal(&report.text(true)).into_owned())
        }
    }
}

/// Returns false once the reader, such as `head`, has closed the pipe.
pub(super) fn write(text: &str) -> Result<bool, Failure> {
    let mut stdout = anstream::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true).map_err(|error| cannot_print(&error)),
    }
}

fn cannot_print(error: &dyn Display) -> Failure {
    Failure::Request(format!("print: {error}"))
}

pub(super) fn print_error(line: &str) {
    let _ = writeln!(anstream::stderr(), "{} {}", paint(AnsiColor::Red, "error:"), on_terminal(line));
}

/// Tells on stderr what the report leaves out.
pub(super) fn note(line: &str) {
    let _ = writeln!(anstream::stderr(), "{} {}", paint(AnsiColor::Yellow, "note:"), on_terminal(line));
}

/// The current step on one line of stderr, which is erased when this is dropped.
pub(super) struct Progress {
    is_terminal: bool,
}

impl Progress {
    pub(super) fn start(step: &str) -> Self {
        let progress = Self { is_terminal: std::io::stderr().is_terminal() };
        progress.step(step);
        progress
    }

    pub(super) fn step(&self, step: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[2K{step} …");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            eprint!("\r\x1b[2K");
        }
    }
}

pub(super) fn paint(colour: AnsiColor, text: impl Display) -> String {
    styled(colour.on_default(), text)
}

pub(super) fn bold(text: impl Display) -> String {
    styled(Style::new().bold(), text)
}

fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

pub(super) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or("-".into(), |value| value.to_string())
}

/// Columns as wide as their widest cell, two blanks apart, as kubectl prints them.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let columns = Columns::of(head, rows);
    let head = columns.line(head.iter().copied());
    head + &rows.iter().map(|row| columns.line(row.iter().map(String::as_str))).collect::<String>()
}

/// The widths of the columns of a table.
pub(super) struct Columns(Vec<usize>);

impl Columns {
    pub(super) fn of(head: &[&str], rows: &[Vec<String>]) -> Self {
        let column = |(at, title): (usize, &&str)| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell));
            cells.chain([width(title)]).max().unwrap_or_default()
        };
        Self(head.iter().enumerate().map(column).collect())
    }

    pub(super) fn line<'a>(&self, cells: impl Iterator<Item = &'a str>) -> String {
        let padded = cells.zip(&self.0).map(|(cell, wide)| {
            let space = " ".repeat(wide.saturating_sub(width(cell)));
            cell.replace('\n', "\\n") + &space
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    }
}

/// Styles have no width.
fn width(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().chars().count()
}

/// One `name  value` a line, indented and aligned.
pub(super) fn fields(fields: &[(&str, String)]) -> String {
    let widest = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, value): &(&str, String)| format!("  {name:widest$}  {}\n", value.replace('\n', "\\n"));
    fields.iter().map(line).collect()
}

pub(super) fn age(since: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(since))
}

/// In its two largest units, as kubectl prints it.
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
        let printed = |seconds| duration(SignedDuration::from_secs(seconds));
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
            assert_eq!(printed(seconds), expected);
        }
    }

    #[test]
    fn fields_line_up() {
        assert_eq!(fields(&[("a", "1".into()), ("long", "2".into())]), "  a     1\n  long  2\n");
    }
}
