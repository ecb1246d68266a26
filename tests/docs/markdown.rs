//! A page of the documents, as its readers see it: code blocks, code in the text, links, headings.

use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A page.
pub struct Page {
    /// From the repository's root.
    pub path: PathBuf,
    /// What is in it, in order, with where that is.
    events: Vec<(Event<'static>, Range<usize>)>,
    text: String,
}

/// A block of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// `sh`, `yaml`; none for a block that is only indented.
    pub language: Option<String>,
    /// What is in it.
    pub code: String,
    /// Its first line in the file, from 1.
    pub line: usize,
    /// Why no test runs it: `<!-- not run: why -->` on the line above.
    pub not_run: Option<String>,
}

impl Page {
    /// Reads a page of the repository.
    pub fn read(root: &Path, path: &Path) -> Self {
        let text =
            std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parser = Parser::new_ext(&text, Options::ENABLE_TABLES).into_offset_iter();
        let events = parser.map(|(event, at)| (event.into_static(), at)).collect();
        Self { path: path.to_owned(), events, text }
    }

    /// Every page of the repository, in order.
    pub fn all(root: &Path) -> Vec<Self> {
        let mut folders = vec![root.to_owned()];
        let mut paths = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder of the repository can be read") {
                let path = entry.expect("a folder of the repository can be read").path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                match path.is_dir() {
                    true if !name.starts_with('.') && name != "target" => folders.push(path),
                    false if name.ends_with(".md") => {
                        paths.push(path.strip_prefix(root).expect("it is below the root").to_owned());
                    }
                    _ => {}
                }
            }
        }
        paths.sort();
        paths.iter().map(|path| Self::read(root, path)).collect()
    }

    /// Its blocks of code.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        let mut comment = None;
        for (event, at) in &self.events {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let language = match kind {
                        CodeBlockKind::Fenced(language) => Some(language.to_string()),
                        CodeBlockKind::Indented => None,
                    };
                    let line = self.text[..at.start].lines().count() + 1;
                    open = Some(Block { language, code: String::new(), line, not_run: comment.take() });
                }
                Event::Text(text) => match &mut open {
                    Some(block) => block.code.push_str(text),
                    None => comment = None,
                },
                Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
                Event::Html(html) => {
                    let why = html.trim().strip_prefix("<!-- not run:").and_then(|rest| rest.strip_suffix("-->"));
                    comment = why.map(|why| why.trim().to_owned()).or(comment);
                }
                _ => {}
            }
        }
        blocks
    }

    /// What is written as code in the text, tables included; not the blocks.
    pub fn code_spans(&self) -> Vec<String> {
        let code = self.events.iter().filter_map(|(event, _)| match event {
            Event::Code(code) => Some(code.to_string()),
            _ => None,
        });
        code.collect()
    }

    /// Where its links lead, as written.
    pub fn links(&self) -> Vec<String> {
        let links = self.events.iter().filter_map(|(event, _)| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
            _ => None,
        });
        links.collect()
    }

    /// The anchors of its headings, as GitHub makes them.
    pub fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        let mut heading: Option<String> = None;
        for (event, _) in &self.events {
            match (event, &mut heading) {
                (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
                (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(text),
                (Event::End(TagEnd::Heading(_)), Some(text)) => {
                    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                    let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
                    let same = anchors.iter().filter(|other| **other == anchor).count();
                    anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
                    heading = None;
                }
                _ => {}
            }
        }
        anchors
    }

    /// Its lines, with their numbers from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}
