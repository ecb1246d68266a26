//! Texts that others chose, made fit to be shown: in conditions, events, errors, and on a terminal.

use std::borrow::Cow;

/// On one line and of at most `max` characters. What a terminal would obey, and not show, is escaped.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let (mut line, mut left) = (String::new(), max);
    for character in text.split_whitespace().flat_map(|word| [" ", word]).skip(1).flat_map(str::chars) {
        let length = if is_command(character) { character.escape_unicode().len() } else { 1 };
        if length > left {
            line.push('…');
            break;
        }
        left = left.saturating_sub(length);
        push_shown(&mut line, character);
    }
    line
}

/// A text of several lines. Keeps the styles that this program uses, which cannot hide or overwrite anything.
pub(crate) fn on_terminal(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| character != '\n' && is_command(character)) {
        return text.into();
    }
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(character) = rest.chars().next() {
        let length = style_length(rest).unwrap_or(character.len_utf8());
        let (next, others) = rest.split_at(length);
        match next.len() > character.len_utf8() || character == '\n' {
            true => shown.push_str(next),
            false => push_shown(&mut shown, character),
        }
        rest = others;
    }
    shown.into()
}

/// None, bold, red, green, yellow, and cyan. With others, such as black on black, a text could hide what follows it.
const STYLES: [&str; 6] = ["0", "1", "31", "32", "33", "36"];

/// The length of the escape sequence for a style that the text begins with.
fn style_length(text: &str) -> Option<usize> {
    let (style, rest) = text.strip_prefix("\u{1b}[")?.split_once('m')?;
    STYLES.contains(&style).then(|| text.len().saturating_sub(rest.len()))
}

fn push_shown(line: &mut String, character: char) {
    match is_command(character) {
        true => line.extend(character.escape_unicode()),
        false => line.push(character),
    }
}

/// Whether it moves the cursor, changes the direction of what follows, or shows nothing.
fn is_command(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use anstyle::{AnsiColor, Style};

    use super::*;

    #[test]
    fn a_line_is_bounded_and_has_no_commands() {
        for (text, expected) in [
            ("a\n\tb  c ", "a b c"),
            ("\u{1b}[2K\u{1b}[1Ayes", r"\u{1b}[2K\u{1b}[1Ayes"),
            ("\u{9b}1A", r"\u{9b}1A"),
            ("abc\u{202e}cba", r"abc\u{202e}cba"),
            ("12345 7890", "12345 7890"),
            ("12345 78901", "12345 7890…"),
            ("ééééééééééé", "éééééééééé…"),
            ("1234\u{7}", r"1234\u{7}"),
            ("12345\u{7}7", r"12345\u{7}…"),
            ("123456\u{7}", "123456…"),
            ("a\u{ad}\u{61c}\u{180e}\u{fff9}\u{e0041}", r"a\u{ad}\u{61c}\u{180e}\u{fff9}\u{e0041}"),
            ("", ""),
        ] {
            let max = if text.starts_with(['1', 'é']) { 10 } else { 100 };
            assert_eq!(one_line(text, max), expected);
        }
        assert_eq!(
            one_line(&one_line("a\u{7}b", 100), 100),
            one_line("a\u{7}b", 100),
            "the second time changes nothing"
        );
    }

    #[test]
    fn a_terminal_gets_lines_and_colours_and_nothing_else() {
        assert_eq!(on_terminal("plain\ntext"), "plain\ntext");
        for colour in [AnsiColor::Red, AnsiColor::Green, AnsiColor::Yellow, AnsiColor::Cyan] {
            let (colour, bold) = (colour.on_default(), Style::new().bold());
            let styled = format!("{colour}colour{colour:#} {bold}bold{bold:#}\n");
            assert_eq!(on_terminal(&styled), styled);
        }
        for (text, expected) in [
            ("\u{1b}[2Kx\n", "\\u{1b}[2Kx\n"),
            ("\u{1b}[31", "\\u{1b}[31"),
            ("\u{1b}[8mhidden", "\\u{1b}[8mhidden"),
            ("\u{1b}[30;40mhidden", "\\u{1b}[30;40mhidden"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("a\rb", "a\\u{d}b"),
            ("\u{1b}[31mé\u{8}", "\u{1b}[31mé\\u{8}"),
        ] {
            assert_eq!(on_terminal(text), expected);
        }
    }
}
