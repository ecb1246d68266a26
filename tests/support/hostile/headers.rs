//! Headers that are wrong, too many, too long, or without an end, and bodies that are not framed as the headers say.

use super::bodies::STALL;
use super::fields::pick;
use super::liar::LONGEST_HEADERS;
use super::wire::{Answer, Response, Step};

pub(super) fn answer(right: Response, neutron: &str, random: &mut fastrand::Rng) -> Answer {
    match random.u8(0..12) {
        0 | 1 => redirect(right, neutron, random),
        2 | 3 => wrong_length(right, random),
        4 => {
            let coding = pick(random, ["gzip", "br", "zstd", "gzip, gzip", "identity", "x"]);
            right.header("Content-Encoding", coding).whole()
        }
        5 | 6 => wrong_chunks(right, random),
        7 => many(right, random),
        8 => long(right),
        9 => endless_block(right),
        10 => garbage(right, random),
        _ => {
            let id = pick(random, ["r".repeat(4000), "\u{e9}\u{e9}".into(), "a\tb".into(), String::new()]);
            right.header("x-openstack-request-id", id).whole()
        }
    }
}

fn redirect(mut right: Response, neutron: &str, random: &mut fastrand::Rng) -> Answer {
    right.status = pick(random, [300, 301, 302, 303, 305, 307, 308]);
    let targets = [
        neutron.to_owned(),
        "http://169.254.169.254/latest/meta-data".into(),
        "file:///etc/passwd".into(),
        "//".into(),
        "/".into(),
        "http://[::".into(),
        "x".repeat(100_000),
        "\u{e9}".into(),
    ];
    right.header("Location", pick(random, targets)).whole()
}

fn wrong_length(right: Response, random: &mut fastrand::Rng) -> Answer {
    let length = right.body.len();
    let lengths: Vec<String> = match random.u8(0..6) {
        0 => vec![(length / 2).to_string()],
        1 => vec![(length + 7).to_string()],
        2 => vec![pick(random, ["-1", "+1", "abc", "", "0x10"]).into()],
        3 => vec![pick(random, [u64::MAX.to_string(), "9".repeat(40)])],
        4 => vec![length.to_string(), (length + 1).to_string()],
        _ => vec![format!("{length}, {length}")],
    };
    let head = lengths.iter().fold(right.open_head(), |head, length| format!("{head}Content-Length: {length}\r\n"));
    let end = if random.bool() { vec![Step::Hold] } else { Vec::new() };
    let steps = [Step::Send(format!("{head}\r\n").into()), Step::Send(right.body)];
    Answer::broken(steps.into_iter().chain(end))
}

fn wrong_chunks(right: Response, random: &mut fastrand::Rng) -> Answer {
    let length = if random.u8(0..4) == 0 { "Content-Length: 5\r\n" } else { "" };
    let head = format!("{}{length}Transfer-Encoding: chunked\r\n\r\n", right.open_head());
    let chunk = format!("{:x}\r\n{}\r\n", right.body.len(), String::from_utf8_lossy(&right.body));
    let rest = match random.u8(0..7) {
        0 => Step::Send("ffffffffffffffff\r\nx".into()),
        1 => Step::Send("-1\r\nx\r\n0\r\n\r\n".into()),
        2 => Step::Send("zz\r\n".into()),
        3 => Step::Send("1\r\nxy\r\n0\r\n\r\n".into()),
        // An extension, and trailers, without an end.
        4 => return Answer::broken([Step::Send(format!("{head}5;x=").into()), Step::Forever(vec![b'x'; 8192].into())]),
        5 => {
            let trailer = format!("X-Trailer: {}\r\n", "x".repeat(1000));
            let start = format!("{head}{chunk}0\r\n");
            return Answer::broken([Step::Send(start.into()), Step::Forever(trailer.into())]);
        }
        // The last chunk never comes.
        _ => return Answer::broken([Step::Send(format!("{head}{chunk}").into()), Step::Hold]),
    };
    Answer::broken([Step::Send(head.into()), rest])
}

fn many(mut right: Response, random: &mut fastrand::Rng) -> Answer {
    for number in 0..pick(random, [90, 101, 1000, 10_000]) {
        right = right.header(&format!("X-{number}"), "x");
    }
    right.whole()
}

/// As long as a client reads them, and kept until the body has arrived.
fn long(mut right: Response) -> Answer {
    const COUNT: usize = 90;
    for number in 0..COUNT {
        right = right.header(&format!("X-{number}"), "x".repeat(LONGEST_HEADERS / COUNT));
    }
    let (first, last) = (right.body.slice(..right.body.len() / 2), right.body.slice(right.body.len() / 2..));
    Answer::complete([right.head(right.body.len()), Step::Send(first), Step::Pause(STALL), Step::Send(last)])
}

fn endless_block(right: Response) -> Answer {
    let start = format!("{}X-Long: {}", right.open_head(), "x".repeat(LONGEST_HEADERS));
    Answer::broken([Step::Send(start.into()), Step::Hold])
}

fn garbage(right: Response, random: &mut fastrand::Rng) -> Answer {
    let line = pick(
        random,
        ["no colon", ": no name", "X\u{0}: nul", "X-Folded: a\r\n b", "X-\u{e9}: name", "\u{1}\u{2}: x", "X : space"],
    );
    let head = format!("{}{line}\r\nContent-Length: {}\r\n\r\n", right.open_head(), right.body.len());
    Answer::broken([Step::Send(head.into()), Step::Send(right.body)])
}
