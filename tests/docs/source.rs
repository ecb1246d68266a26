//! The texts that the program can print, read from its source: string literals, without those that only a programmer sees.

use std::path::Path;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::LitStr;

/// A text for people, and where it is written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Text {
    /// The file, from `src/`.
    pub file: String,
    /// As it is written, with `{}` where something is filled in.
    pub text: String,
}

/// What is read of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything but the lines of the log that tell of no trouble.
    Messages,
    /// What `info!` is given.
    Info,
}

/// The texts of a file, outside tests, attributes (but `error`) and `expect`.
pub fn texts(path: &Path, kind: Kind) -> Vec<Text> {
    let source = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let tokens: TokenStream = source.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut literals = Vec::new();
    walk(tokens, kind == Kind::Messages, kind, &mut literals);
    let file = path.strip_prefix(super::root().join("src")).unwrap_or(path).display().to_string();
    literals.into_iter().map(|text| Text { file: file.clone(), text }).collect()
}

/// Collects the literals of `tokens` where `is_wanted`, and goes into what `kind` wants.
fn walk(tokens: TokenStream, is_wanted: bool, kind: Kind, found: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut name = String::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                // `#![…]` is about the file itself.
                tokens.next_if(|next| matches!(next, TokenTree::Punct(next) if next.as_char() == '!'));
                let Some(TokenTree::Group(attribute)) = tokens.next() else { continue };
                match attribute_of(&attribute).as_str() {
                    "error" => walk(attribute.stream(), is_wanted, kind, found),
                    // The item that the attribute is for: up to its body, or to its end.
                    "cfg(test)" => while tokens.next().is_some_and(|token| !ends_item(&token)) {},
                    _ => {}
                }
            }
            TokenTree::Ident(ident) => name = ident.to_string(),
            TokenTree::Group(group) => {
                let is_wanted = match name.as_str() {
                    "info" => kind == Kind::Info,
                    "expect" | "debug" | "trace" | "assert" | "assert_eq" | "panic" | "unreachable" => false,
                    _ => is_wanted,
                };
                walk(group.stream(), is_wanted, kind, found);
                name.clear();
            }
            TokenTree::Literal(literal) if is_wanted => {
                found.extend(syn::parse2::<LitStr>(TokenTree::Literal(literal).into()).ok().map(|text| text.value()));
            }
            // `info!(…)`: the name is still what comes before the group.
            TokenTree::Punct(punct) if punct.as_char() == '!' => {}
            TokenTree::Punct(_) | TokenTree::Literal(_) => name.clear(),
        }
    }
}

fn attribute_of(attribute: &Group) -> String {
    let text = attribute.stream().to_string().replace(' ', "");
    if text == "cfg(test)" { text } else { text.split(['(', '=']).next().unwrap_or_default().to_owned() }
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    }
}
