//! Templates of `-o jsonpath`, in kubectl's syntax: text, `{path}`, `{"text"}`, and `{range path}…{end}`
//! (<https://kubernetes.io/docs/reference/kubectl/jsonpath/>). The paths are rewritten to the syntax of RFC 9535, which
//! jsonpath-rust evaluates.

use std::iter::Peekable;
use std::str::Chars;

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

#[derive(Clone, PartialEq, Debug)]
pub(in crate::plugin) struct Template(Vec<Node>);

#[derive(Clone, PartialEq, Debug)]
enum Node {
    Text(String),
    Path(Path),
    Range(Path, Vec<Node>),
}

#[derive(Clone, PartialEq, Debug)]
struct Path {
    /// It begins with `$`: not with the item of the range that it is in.
    is_from_root: bool,
    query: JpQuery,
}

/// A word between braces.
enum Token {
    Text(String),
    Path(Path),
    Range,
    End,
}

impl Template {
    pub(super) fn parse(template: &str) -> Result<Self, String> {
        let mut open: Vec<(Path, Vec<Node>)> = Vec::new();
        let mut nodes = Vec::new();
        let mut tokens = tokenize(template)?.into_iter();
        while let Some(token) = tokens.next() {
            match token {
                Token::Text(text) => nodes.push(Node::Text(text)),
                Token::Path(path) => nodes.push(Node::Path(path)),
                Token::Range => match tokens.next() {
                    Some(Token::Path(path)) => open.push((path, std::mem::take(&mut nodes))),
                    _ => return Err("`range` must be followed by a path, as in {range .items[*]}".into()),
                },
                Token::End => {
                    let (path, outer) = open.pop().ok_or("{end} without {range …}")?;
                    let body = std::mem::replace(&mut nodes, outer);
                    nodes.push(Node::Range(path, body));
                }
            }
        }
        if !open.is_empty() {
            return Err("{range …} without {end}".into());
        }
        if !template.is_empty() && !template.contains('{') {
            return Err(format!("{template} has no path in braces, such as {{.items[*].address}}"));
        }
        Ok(Self(nodes))
    }

    pub(super) fn render(&self, data: &Value) -> Result<String, String> {
        let mut text = String::new();
        render_into(&mut text, &self.0, data, data)?;
        Ok(text)
    }
}

fn render_into(text: &mut String, nodes: &[Node], root: &Value, item: &Value) -> Result<(), String> {
    for node in nodes {
        match node {
            Node::Text(literal) => text.push_str(literal),
            Node::Path(path) => {
                let values: Vec<String> = path.select(root, item)?.into_iter().map(shown).collect();
                text.push_str(&values.join(" "));
            }
            Node::Range(path, body) => {
                for item in path.select(root, item)? {
                    render_into(text, body, root, item)?;
                }
            }
        }
    }
    Ok(())
}

/// As kubectl prints it: a string without quotes, anything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

impl Path {
    /// Nothing where a field is missing.
    fn select<'a>(&self, root: &'a Value, item: &'a Value) -> Result<Vec<&'a Value>, String> {
        let from = if self.is_from_root { root } else { item };
        let found = js_path_process(&self.query, from).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|found| found.val()).collect())
    }
}

fn tokenize(template: &str) -> Result<Vec<Token>, String> {
    let (mut tokens, mut text, mut rest) = (Vec::new(), String::new(), template.chars().peekable());
    while let Some(character) = rest.next() {
        if character != '{' {
            text.push(character);
            continue;
        }
        if !text.is_empty() {
            tokens.push(Token::Text(std::mem::take(&mut text)));
        }
        tokenize_action(&mut rest, &mut tokens)?;
    }
    if !text.is_empty() {
        tokens.push(Token::Text(text));
    }
    Ok(tokens)
}

/// What is between two braces: words that follow each other.
fn tokenize_action(rest: &mut Peekable<Chars<'_>>, tokens: &mut Vec<Token>) -> Result<(), String> {
    loop {
        match rest.peek().copied() {
            None => return Err("a { is not closed".into()),
            Some('}') => {
                rest.next();
                return Ok(());
            }
            Some(' ' | '\t' | '\n') => drop(rest.next()),
            Some('"' | '\'') => tokens.push(Token::Text(read_quoted(rest)?)),
            Some('.' | '[' | '$' | '@') => tokens.push(Token::Path(read_path(rest)?)),
            Some(_) => match read_name(rest).as_str() {
                "range" => tokens.push(Token::Range),
                "end" => tokens.push(Token::End),
                word => {
                    let word =
                        if word.is_empty() { rest.next().map(String::from).unwrap_or_default() } else { word.into() };
                    return Err(format!(
                        "`{word}` is not understood between braces: a path begins with a dot, as in {{.items}}"
                    ));
                }
            },
        }
    }
}

/// A quoted text, with the escapes of JSON.
fn read_quoted(rest: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let quote = rest.next();
    let mut text = String::new();
    while let Some(character) = rest.next() {
        match character {
            character if Some(character) == quote => return Ok(text),
            '\\' => match rest.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some(other) => text.push(other),
                None => break,
            },
            character => text.push(character),
        }
    }
    Err("a quoted text is not closed".into())
}

/// A path in kubectl's syntax, up to a blank or the closing brace.
fn read_path(rest: &mut Peekable<Chars<'_>>) -> Result<Path, String> {
    let is_from_root = rest.peek() == Some(&'$');
    if matches!(rest.peek(), Some('$' | '@')) {
        rest.next();
    }
    let mut query = String::from("$");
    read_segments(rest, &mut query)?;
    let parsed = parse_json_path(&query).map_err(|_| format!("the path {query} is not supported"))?;
    Ok(Path { is_from_root, query: parsed })
}

/// Appends `.name`, `..name`, `.*` and `[…]` in the syntax of RFC 9535: each name in brackets, since kubectl's names may have
/// any character, such as `.labels.app\.kubernetes\.io/name`.
fn read_segments(rest: &mut Peekable<Chars<'_>>, query: &mut String) -> Result<(), String> {
    loop {
        match rest.peek() {
            Some('.') => {
                rest.next();
                if rest.next_if_eq(&'.').is_some() {
                    query.push_str("..");
                }
                match rest.peek() {
                    Some('*') => {
                        rest.next();
                        query.push_str("[*]");
                    }
                    Some('[') => {}
                    _ => match read_name(rest) {
                        // `{.}` is the item itself.
                        name if name.is_empty() && !query.ends_with("..") => {}
                        name => query.push_str(&format!("[{}]", quoted(&name))),
                    },
                }
            }
            Some('[') => read_brackets(rest, query)?,
            _ => return Ok(()),
        }
    }
}

fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A name ends where kubectl ends it. A backslash takes what follows it into the name.
fn read_name(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut name = String::new();
    while let Some(character) = rest.next_if(|character| !" \t\n.[](){},@$'\"=!<>*&|".contains(*character)) {
        match character {
            '\\' => name.extend(rest.next()),
            character => name.push(character),
        }
    }
    name
}

/// Copies what is in brackets. In a filter, the names of paths are rewritten too.
fn read_brackets(rest: &mut Peekable<Chars<'_>>, query: &mut String) -> Result<(), String> {
    let mut depth = 0_usize;
    while let Some(character) = rest.peek().copied() {
        match character {
            '"' | '\'' => {
                let text = read_quoted(rest)?;
                query.push_str(&quoted(&text));
                continue;
            }
            '@' => {
                rest.next();
                query.push('@');
                read_segments(rest, query)?;
                continue;
            }
            '[' | '(' => depth = depth.saturating_add(1),
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        rest.next();
        query.push(character);
        if depth == 0 {
            return Ok(());
        }
    }
    Err("a [ is not closed".into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn data() -> Value {
        json!({"items": [
            {"address": "203.0.113.7", "state": "Allocated", "port": null, "count": 1,
                "labels": {"app.kubernetes.io/name": "web", "it's": "quoted"}},
            {"address": "203.0.113.8", "state": "Listed", "claim": "web-1", "count": 2}
        ]})
    }

    fn rendered(template: &str) -> String {
        Template::parse(template)
            .and_then(|template| template.render(&data()))
            .unwrap_or_else(|error| format!("! {error}"))
    }

    /// What kubectl prints for the same data and template.
    #[test]
    fn templates_print_what_kubectl_prints() {
        for (template, expected) in [
            ("{.items[*].address}", "203.0.113.7 203.0.113.8"),
            ("{range .items[*]}{.address}{\"\\n\"}{end}", "203.0.113.7\n203.0.113.8\n"),
            ("{range .items[*]}{.address}{'\\t'}{.state};{end}", "203.0.113.7\tAllocated;203.0.113.8\tListed;"),
            ("{.items[?(@.state==\"Listed\")].address}", "203.0.113.8"),
            ("{.items[?(@.count>1)].address}", "203.0.113.8"),
            ("{.items[?(@.claim)].claim}", "web-1"),
            ("{.items[0].labels.app\\.kubernetes\\.io/name}", "web"),
            ("{.items[0].labels['app.kubernetes.io/name']}", "web"),
            ("{.items[0].labels[\"it's\"]}", "quoted"),
            ("{.items[?(@.labels.app\\.kubernetes\\.io/name=='web')].count}", "1"),
            ("{.items[-1:].address}", "203.0.113.8"),
            ("{.items[0:1].address}", "203.0.113.7"),
            ("{.items[0,1].count}", "1 2"),
            ("{..claim}", "web-1"),
            ("{$.items[1].claim}", "web-1"),
            ("{.items[1]['claim','state']}", "web-1 Listed"),
            ("{.items[0].labels.nothing}", ""),
            ("{.items[0].port}", ""),
            ("{.items[1].count} of {.items[*].count}", "2 of 1 2"),
            ("{range .items[*]}{@.count}{$.items[0].count}{end}", "1121"),
            ("{.items[1]}", r#"{"address":"203.0.113.8","claim":"web-1","count":2,"state":"Listed"}"#),
            ("", ""),
        ] {
            assert_eq!(rendered(template), expected, "{template}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (template, expected) in [
            ("{.items", "not closed"),
            ("{.items[*}", "not closed"),
            ("{\"text}", "not closed"),
            (".items", "no path in braces"),
            ("{items}", "begins with a dot"),
            ("{range .items[*]}{.address}", "without {end}"),
            ("{end}", "without {range"),
            ("{range}{end}", "followed by a path"),
            ("{.items[1 2]}", "not supported"),
            ("{.items[?(@.a =~ 'b')]}", "not supported"),
            ("{.items[x]}", "not supported"),
        ] {
            let error = Template::parse(template).expect_err(template);
            assert!(error.contains(expected), "{template}: {error}");
        }
    }
}
