//! Texts that others chose, made fit to be shown: in conditions, events, errors, and on a terminal.

use std::borrow::Cow;

/// On one line and of at most `max` characters. What a terminal would obey, and not show, is escaped.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    for (at, character) in text.split_whitespace().flat_map(|word| [" ", word]).skip(1).flat_map(str::chars).enumerate()
    {
        if at >= max {
            line.push('…');
            break;
        }
        push_shown(&mut line, character);
    }
    line
}

/// A text of several lines. Keeps colours, which cannot hide or overwrite anything.
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

/// The length of the escape sequence for a style or colour that the text begins with.
fn style_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.trim_start_matches(|character: char| character.is_ascii_digit() || character == ';');
    text.len().checked_sub(end.strip_prefix('m')?.len())
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
}

#[cfg(test)]
mod tests {
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
        assert_eq!(on_terminal("\u{1b}[1;31mred\u{1b}[0m\n"), "\u{1b}[1;31mred\u{1b}[0m\n");
        for (text, expected) in [
            ("\u{1b}[2Kx\n", "\\u{1b}[2Kx\n"),
            ("\u{1b}[31", "\\u{1b}[31"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("a\rb", "a\\u{d}b"),
            ("\u{1b}[31mé\u{8}", "\u{1b}[31mé\\u{8}"),
        ] {
            assert_eq!(on_terminal(text), expected);
        }
    }
}
