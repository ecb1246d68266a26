//! Bodies that come slowly, stop, never end, or fill as much memory as they may, and connections without any.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::answers::{Place, id};
use super::wire::{Answer, Request, Response, Step};

/// Less than the 30 s that a call to Neutron may take: the answer is complete in time, so that no circuit breaker opens.
pub(super) const STALL: Duration = Duration::from_secs(25);
/// The same for Keystone, and its 10 s.
const KEYSTONE_STALL: Duration = Duration::from_secs(8);

/// In bytes: what the program reads of an answer to a GET, and of another one.
const MAX_READ: usize = 2 << 20;
const MAX_REPLY: usize = 128 << 10;

/// In bytes of memory: what the floating IPs of one namespace may take.
const MAX_LISTED: usize = 4 << 20;
const MAX_TEXT: usize = 1020;
const MAX_TAGS: usize = 64;

static FILLER: LazyLock<Bytes> = LazyLock::new(|| vec![b'x'; MAX_READ].into());

pub(super) fn slow(right: Response, random: &mut fastrand::Rng) -> Answer {
    let pause = Duration::from_millis(random.u64(50..2000));
    let head = format!("{}Content-Length: {}\r\n\r\n", right.open_head(), right.body.len());
    let half = |bytes: &Bytes| Step::Send(bytes.slice(..bytes.len() / 2));
    match random.u8(0..9) {
        0 => Answer::none(false),
        1 => Answer::none(true),
        2 => Answer::broken([Step::Hold]),
        3 => Answer::broken([half(&head.into())]),
        4 => Answer::broken([Step::Send(head.into()), half(&right.body)]),
        5 => Answer::broken([Step::Send(head.into()), half(&right.body), Step::Reset]),
        6 => Answer::broken([Step::Drip(head.into(), pause)]),
        7 => Answer::complete([Step::Send(head.into()), Step::Drip(right.body, pause / 10)]),
        _ => Answer::complete([Step::Pause(pause * 8), Step::Send(head.into()), Step::Send(right.body)]),
    }
}

/// As long as it may be, and complete but for its last byte until it is almost too late.
pub(super) fn stalled(request: &Request, right: Response, random: &mut fastrand::Rng) -> Answer {
    let limit = if request.method == "GET" { MAX_READ } else { MAX_REPLY };
    let stall = if request.path.ends_with("/auth/tokens") { KEYSTONE_STALL } else { STALL };
    let text = String::from_utf8_lossy(&right.body);
    let fields = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default();
    let comma = if fields.is_empty() { "" } else { "," };
    let start = format!("{{{fields}{comma}\"more\":\"");
    let end = "\"}";
    let filler = FILLER.slice(..limit.saturating_sub(start.len() + end.len() + 1));
    let length = start.len() + filler.len() + end.len();
    // A 204 has no body.
    let status = if right.status == 204 { 200 } else { right.status };
    let head = Response { status, ..right }.head(length);
    let mut steps = vec![head, Step::Send(start.into()), Step::Send(filler), Step::Send("\"".into())];
    if random.u8(0..4) == 0 {
        steps.push(Step::Hold);
        return Answer::broken(steps);
    }
    steps.extend([Step::Pause(stall), Step::Send("}".into())]);
    Answer::complete(steps)
}

pub(super) fn endless(request: &Request, right: Response, place: &Place<'_>, random: &mut fastrand::Rng) -> Answer {
    if random.bool()
        && let Some(key) = listed_key(request)
    {
        return endless_listing(key, place, random);
    }
    let open = right.open_head();
    let text = String::from_utf8_lossy(&right.body).into_owned();
    let start = format!("{},\"more\":\"", text.strip_suffix('}').unwrap_or(&text));
    let more = FILLER.slice(..64 << 10);
    match random.u8(0..5) {
        // Of any length, in chunks, with a length, refused, and a block of headers.
        0 => Answer::broken([Step::Send(format!("{open}\r\n{start}").into()), Step::Forever(more)]),
        1 => {
            let head = format!("{open}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{start}\r\n", start.len());
            let chunk = [b"10000\r\n", more.as_ref(), b"\r\n"].concat();
            Answer::broken([Step::Send(head.into()), Step::Forever(chunk.into())])
        }
        2 => {
            let head = format!("{open}Content-Length: {}\r\n\r\n{start}", 1_u64 << 40);
            Answer::broken([Step::Send(head.into()), Step::Forever(more)])
        }
        3 => {
            let open = Response { status: 503, ..right }.open_head();
            Answer::broken([Step::Send(format!("{open}\r\n<p>").into()), Step::Forever(more)])
        }
        _ => Answer::broken([Step::Send(open.into()), Step::Forever("X-More: x\r\n".repeat(100).into())]),
    }
}

/// The field of a listing that has the rows.
fn listed_key(request: &Request) -> Option<&str> {
    let path = request.path.split('?').next()?;
    let key = path.rsplit('/').next()?;
    (request.method == "GET" && ["floatingips", "networks", "subnets"].contains(&key)).then_some(key)
}

/// A page with new ids, which links to another one. The rows are right, or have nothing but an id, or not even that.
fn endless_listing(key: &str, place: &Place<'_>, random: &mut fastrand::Rng) -> Answer {
    let (kind, count) = (random.u8(0..4), [1, 100, 1000, 5000][random.usize(0..4)]);
    let row = |random: &mut fastrand::Rng| match kind {
        0 => json!(0),
        1 => json!({"id": id(random)}),
        _ => place.unknown_row(random),
    };
    let rows: Vec<Value> = (0..count).map(|_| row(random)).collect();
    listing(key, &rows, true).whole()
}

fn listing(key: &str, rows: &[Value], has_next: bool) -> Response {
    let link = json!({"rel": "next", "href": "http://127.0.0.1/"});
    let links = if has_next { vec![link] } else { Vec::new() };
    Response::new(200, json!({key: rows, format!("{key}_links"): links}).to_string())
}

/// Listings of floating IPs with texts and tags as long and as many as may be. Every other Secret's take as much as the
/// namespace may have, in two pages, of which the second one stalls; the others' all find room in it.
pub(super) fn full(request: &Request, right: Response, place: &Place<'_>, random: &mut fastrand::Rng) -> Answer {
    if listed_key(request) != Some("floatingips") {
        return right.whole();
    }
    const ROW: usize = (MAX_TAGS + 3) * MAX_TEXT + 4096;
    let is_second = request.path.contains("marker=");
    let is_large = place.name.bytes().last().is_some_and(|last| last % 2 == 0);
    let rows = if is_large { (MAX_READ / ROW).min(MAX_LISTED / ROW / 2) } else { MAX_LISTED / ROW / 12 };
    let rows: Vec<Value> = (0..rows).map(|_| full_row(place, random)).collect();
    let page = listing("floatingips", &rows, is_large && !is_second);
    match is_large && is_second {
        true => stalled(request, page, random),
        false => page.whole(),
    }
}

fn full_row(place: &Place<'_>, random: &mut fastrand::Rng) -> Value {
    let mut row = place.unknown_row(random);
    let text = |letter: &str| letter.repeat(MAX_TEXT);
    row["description"] = text("d").into();
    row["dns_name"] = text("n").into();
    row["tags"] = (0..MAX_TAGS).map(|number| format!("{number:04}{}", "t".repeat(MAX_TEXT - 4))).collect();
    row
}
