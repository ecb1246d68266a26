//! Every status, in OpenStack's form and in others, with every `Retry-After`.

use serde_json::json;

use super::fields::pick;
use super::wire::{Answer, Response, Step};

const RETRY_AFTER: [&str; 10] =
    ["", "0", "1", "7", "300", "-1", "86400", "99999999999999999999", "1e9", "Fri, 31 Dec 9999 23:59:59 GMT"];

/// Those that the program tells apart, and one that it does not know.
const TYPES: [&str; 13] = [
    "NetworkNotFound",
    "SubnetNotFound",
    "FloatingIPNotFound",
    "TagNotFound",
    "HTTPNotFound",
    "OverQuota",
    "IpAddressGenerationFailure",
    "ExternalIpAddressExhausted",
    "FipInUseByPortForwarding",
    "RevisionNumberConstraintFailed",
    "PolicyNotAuthorized",
    "HTTPInternalServerError",
    "NoSuchType",
];

const USUAL: [u16; 14] = [200, 201, 204, 301, 400, 401, 403, 404, 409, 412, 429, 500, 502, 503];

pub(super) fn answer(right: Response, random: &mut fastrand::Rng) -> Answer {
    match random.u8(0..16) {
        0 => return informational(right, random),
        1 => return not_http(random),
        _ => {}
    }
    let status = if random.bool() { random.choice(USUAL).unwrap_or(500) } else { random.u16(200..1000) };
    let body = match random.u8(0..6) {
        0 => right.body.clone(),
        1 => "".into(),
        2 => "<html>no</html>".into(),
        3 => json!({"error": {"code": status, "title": "No", "message": message(random)}}).to_string().into(),
        _ => {
            let refusal = json!({"type": pick(random, TYPES), "message": message(random), "detail": ""});
            json!({"NeutronError": refusal}).to_string().into()
        }
    };
    let mut refusal = Response { status, body, ..right };
    if random.bool() {
        refusal = refusal.header("Retry-After", pick(random, RETRY_AFTER));
    }
    refusal.whole()
}

/// Answers of 1xx, after which the right one comes or not.
fn informational(right: Response, random: &mut fastrand::Rng) -> Answer {
    let status = pick(random, ["100 Continue", "101 Switching Protocols", "102 Processing", "103 Early Hints"]);
    let head = format!("HTTP/1.1 {status}\r\nLink: </x>; rel=preload\r\n\r\n");
    match random.u8(0..3) {
        0 => Answer::broken([Step::Forever(head.into())]),
        1 => Answer::broken([Step::Send(head.into()), Step::Hold]),
        _ => {
            let mut answer = right.whole();
            answer.steps.insert(0, Step::Send(head.into()));
            answer
        }
    }
}

fn not_http(random: &mut fastrand::Rng) -> Answer {
    let bytes: &[u8] = match random.u8(0..8) {
        0 => b"HTTP/1.1 99 Low\r\n\r\n",
        1 => b"HTTP/1.1 1000 High\r\n\r\n",
        2 => b"HTTP/9.9 200 OK\r\n\r\n{}",
        3 => b"ICY 200 OK\r\n\r\n",
        4 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        5 => b"SSH-2.0-OpenSSH_9.9\r\n",
        6 => b"\x15\x03\x01\x00\x02\x02\x46",
        _ => b"\x00\x00\x00\x00",
    };
    Answer::broken([Step::Send(bytes.into())])
}

fn message(random: &mut fastrand::Rng) -> String {
    match random.u8(0..6) {
        0 => String::new(),
        1 => "m".repeat(60_000),
        2 => "a\nlevel=ERROR msg=forged\r\n\u{1b}[2J\u{0}\u{202e}".into(),
        3 => "\u{1F600}".repeat(300),
        4 => "External network is not external, floating_network_id, subnet".into(),
        // It differs each time.
        _ => format!("request {:x} refused", random.u64(..)),
    }
}
