//! Fields that are wrong: absent, null, of another type, too long, too large, of another time, of another tenant.

use bytes::Bytes;
use serde_json::{Value, json};

use super::answers::Place;
use super::wire::{Answer, Response};

/// An answer with one to three wrong fields, or with text that is not JSON.
pub(super) fn answer(place: &Place<'_>, mut right: Response, random: &mut fastrand::Rng) -> Answer {
    if let Ok(mut body) = serde_json::from_slice::<Value>(&right.body) {
        for _ in 0..random.u8(1..4) {
            distort(&mut body, place, random);
        }
        right.body = body.to_string().into();
    }
    if random.u8(0..5) == 0 {
        right.body = not_json(&right.body, random);
    }
    right.whole()
}

fn distort(body: &mut Value, place: &Place<'_>, random: &mut fastrand::Rng) {
    let mut paths = Vec::new();
    collect(body, String::new(), &mut paths);
    let Some(path) = random.choice(paths) else { return };
    let (parent, name) = path.rsplit_once('/').unwrap_or_default();
    if random.u8(0..6) == 0
        && let Some(Value::Object(fields)) = body.pointer_mut(parent)
    {
        fields.remove(name);
        return;
    }
    if let Some(field) = body.pointer_mut(&path) {
        *field = wrong_value(place, random);
    }
}

/// The pointers of all values, of an array those of the first three.
fn collect(value: &Value, path: String, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                collect(field, format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), paths);
            }
        }
        Value::Array(all) => {
            for (number, item) in all.iter().take(3).enumerate() {
                collect(item, format!("{path}/{number}"), paths);
            }
        }
        _ => {}
    }
    paths.push(path);
}

fn wrong_value(place: &Place<'_>, random: &mut fastrand::Rng) -> Value {
    match random.u8(0..8) {
        0 => Value::Null,
        1 => pick(random, [json!(true), json!([]), json!({}), json!([[]]), json!({"id": "x"}), json!(["a", "a"])]),
        2 => pick(random, [json!(-1), json!(i64::MIN), json!(u64::MAX), json!(1e308), json!(0.5), json!(0)]),
        3 => json!("x".repeat(pick(random, [0, 64, 65, 255, 1020, 1021, 100_000]))),
        4 => json!("é\u{1F600}".repeat(pick(random, [11, 170, 171]))),
        5 => pick(random, TIMES.map(Value::from)),
        6 => pick(random, TEXTS.map(Value::from)),
        _ => of_the_victim(place, random),
    }
}

const TIMES: [&str; 8] = [
    "0000-01-01T00:00:00Z",
    "-009999-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "2026-02-30T25:61:61Z",
    "9999-12-31T23:59:59.999999999Z",
    "+262142-12-31T23:59:59Z",
    "2026-11-21T09:00:00+99:99",
    "tomorrow",
];

const TEXTS: [&str; 10] = [
    "",
    "\u{0}",
    "a\nlevel=ERROR forged=true\n",
    "\u{1b}[31mred\u{1b}[0m",
    "\u{202e}reversed",
    "../../v3/auth/tokens",
    "%2e%2e%2f?limit=1#",
    "127.0.0.1",
    "caip-openstack pool=",
    "0.0.0.0",
];

/// Something that belongs to the honest tenant.
fn of_the_victim(place: &Place<'_>, random: &mut fastrand::Rng) -> Value {
    let victim = place.victim;
    let row = random.choice(&victim.rows).cloned().unwrap_or_default();
    let tag = format!("caip.{}.{:032x}", victim.pool_id, random.u128(..));
    let other = [json!(victim.project), json!(victim.pool_id), json!(victim.neutron), json!(tag)];
    let own = ["id", "floating_ip_address", "description", "tags"].map(|field| row[field].clone());
    pick(random, [other, own].concat())
}

fn not_json(body: &Bytes, random: &mut fastrand::Rng) -> Bytes {
    let text = String::from_utf8_lossy(body).into_owned();
    match random.u8(0..9) {
        0 => text.get(..text.len() / 2).unwrap_or_default().to_owned().into(),
        1 => format!("{text}{text}").into(),
        2 => format!("\u{feff}{text}").into(),
        3 => text.replacen(":\"", ":\"\\ud800", 1).into(),
        4 => [b"\xff\xfe", body.as_ref()].concat().into(),
        5 => text.replacen("null", "NaN", 1).replacen(":0", ":1e999", 1).into(),
        6 => "[".repeat(200_000).into(),
        7 => "{\"floatingips\":".repeat(10_000).into(),
        // Every field twice.
        _ => match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            Some(fields) => format!("{{{fields},{fields}}}").into(),
            None => "<html>".into(),
        },
    }
}

pub(super) fn pick<T>(random: &mut fastrand::Rng, from: impl IntoIterator<Item = T>) -> T {
    let mut from: Vec<T> = from.into_iter().collect();
    from.swap_remove(random.usize(0..from.len()))
}
