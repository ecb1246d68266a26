//! Ownership as it is written in Neutron: rendered and parsed here and nowhere else.
//!
//! | where | on what | text |
//! |---|---|---|
//! | description | what we created | `caip-openstack pool=P nonce=N [claim=C] [out=T] [kept=1] [(claim NAME in NAMESPACE)]` |
//! | tag | what we did not create | `caip.P.C` |
//! | tag | both, once released | `caip-out.P.C.T` |
//!
//! `P` is the pool's id, `C` the claim's key, `N` the POST's nonce, `T` seconds since 1970 in hexadecimal. `out=` replaces
//! the release tag where Neutron has no tags. All in lower case, since some databases ignore case; a tag is shorter
//! than 60 characters (the limit of Neutron before 2021), without `/` and `,`.
//!
//! This is version 1 of the marks, which has no number. Version `N` from 2 on begins its descriptions with
//! `caip-openstack v=N `, and its tags with `caipN.` or `caipN-out.`. What else such a mark says, this code does not know: it
//! leaves the floating IP alone, and reports it. Code that reads a new version is released before code that writes it
//! (docs/releases.md).

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::identity::{ClaimKey, Nonce, PoolId};
use crate::floating_ip::FloatingIp;

const DESCRIPTION: &str = "caip-openstack ";
/// Separates the parsed fields of a description from the claim's name, which is only for people.
const CLAIM_TEXT: &str = " (claim ";
const CLAIM_TAG: &str = "caip.";
const RELEASE_TAG: &str = "caip-out.";
/// The version of the marks that this code reads and writes.
const VERSION: u32 = 1;
/// What every tag of ours begins with, in every version, followed by the number from version 2 on and one of the endings.
const TAG: &str = "caip";
const TAG_ENDINGS: [&str; 2] = [".", "-out."];
/// What follows in a description of version 2 and later, before the number.
const DESCRIPTION_VERSION: &str = "v=";
/// Neutron's limit on a description.
const DESCRIPTION_LENGTH: usize = 255;
/// As many as Neutron allows on one resource.
pub(super) const TAG_LIMIT: usize = 50;

/// The mark in the description of a floating IP that we created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreationMark {
    pub pool: PoolId,
    pub nonce: Nonce,
    /// None while the floating IP is free in its pool.
    pub claim: Option<ClaimKey>,
    /// When it was released, where Neutron has no tags.
    pub released: Option<Timestamp>,
    /// A claim had it. With `Retain` it is not deleted with its pool, unlike an unused one.
    pub is_retained: bool,
}

impl CreationMark {
    /// The mark of a new floating IP: a claim's, or a spare's.
    pub fn new(pool: PoolId, claim: Option<ClaimKey>, nonce: Nonce) -> Self {
        Self { pool, nonce, claim, released: None, is_retained: false }
    }

    /// The mark of the same floating IP once it is this claim's.
    pub(super) fn given_to(&self, claim: &ClaimKey) -> Self {
        Self { claim: Some(claim.clone()), released: None, is_retained: false, ..self.clone() }
    }

    /// The mark of the same floating IP once no claim has it.
    pub fn given_back(&self) -> Self {
        Self { claim: None, released: None, ..self.clone() }
    }

    /// The description. The claim's namespace and name are only for people, and cut to what fits.
    pub fn render(&self, claim: Option<(&str, &str)>) -> String {
        let mut text = format!("{DESCRIPTION}pool={} nonce={}", self.pool, self.nonce);
        if let Some(key) = &self.claim {
            text += &format!(" claim={key}");
        }
        if let Some(released) = self.released {
            text += &format!(" out={}", render_time(released));
        }
        if self.is_retained {
            text += " kept=1";
        }
        if let Some((namespace, name)) = claim {
            let space = DESCRIPTION_LENGTH.saturating_sub(text.len()).saturating_sub(claim_text(namespace, "").len());
            let (name, _) = name.split_at(name.floor_char_boundary(space));
            text += &claim_text(namespace, name);
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let fields = text.strip_prefix(DESCRIPTION)?;
        let fields = fields.split_once(" (").map_or(fields, |(fields, _)| fields);
        let (mut pool, mut nonce, mut claim, mut released, mut kept) = (None, None, None, None, None);
        for field in fields.split(' ') {
            let (key, value) = field.split_once('=')?;
            let is_new = match key {
                "pool" => pool.replace(PoolId::parse(value)?).is_none(),
                "nonce" => nonce.replace(Nonce::parse(value)?).is_none(),
                "claim" => claim.replace(ClaimKey::parse(value)?).is_none(),
                "out" => released.replace(parse_time(value)?).is_none(),
                "kept" => kept.replace((value == "1").then_some(())?).is_none(),
                _ => return None,
            };
            if !is_new {
                return None;
            }
        }
        Some(Self { pool: pool?, nonce: nonce?, claim, released, is_retained: kept.is_some() })
    }
}

fn claim_text(namespace: &str, name: &str) -> String {
    format!("{CLAIM_TEXT}{name} in {namespace})")
}

/// The claim's namespace and name in a description: for display, never for decisions. A long name may have been cut.
pub fn claim_in_description(description: &str) -> Option<(&str, &str)> {
    let (_, text) = description.strip_prefix(DESCRIPTION)?.split_once(CLAIM_TEXT)?;
    let (name, namespace) = text.strip_suffix(')')?.rsplit_once(" in ")?;
    Some((namespace, name))
}

/// The tag that gives a floating IP that we did not create to a claim.
pub fn claim_tag(pool: &PoolId, claim: &ClaimKey) -> String {
    format!("{CLAIM_TAG}{pool}.{claim}")
}

/// The tag that marks a floating IP as released by a claim.
pub fn release_tag(pool: &PoolId, claim: &ClaimKey, at: Timestamp) -> String {
    format!("{RELEASE_TAG}{pool}.{claim}.{}", render_time(at))
}

/// Only as it is rendered: without a sign, zeros in front, and upper case.
fn parse_time(text: &str) -> Option<Timestamp> {
    let time = Timestamp::from_second(i64::from_str_radix(text, 16).ok()?).ok()?;
    (render_time(time) == text).then_some(time)
}

fn render_time(time: Timestamp) -> String {
    format!("{:x}", time.as_second())
}

/// The version of a tag that begins like ours, whether or not it can be read. A database that ignores case may return it in
/// another case; then its owner is unknown.
fn tag_version(tag: &str) -> Option<u32> {
    let rest = strip_prefix_ignoring_case(tag, TAG)?;
    let (number, rest) = rest.split_at_checked(rest.find(|c: char| !c.is_ascii_digit())?)?;
    TAG_ENDINGS.iter().find_map(|ending| strip_prefix_ignoring_case(rest, ending))?;
    Some(if number.is_empty() { VERSION } else { parse_version(number) })
}

/// The version of a description that begins like ours, where it has a number.
fn description_version(description: &str) -> Option<u32> {
    let text = description.strip_prefix(DESCRIPTION)?.strip_prefix(DESCRIPTION_VERSION)?;
    let number = text.split(' ').next().filter(|number| number.bytes().all(|c| c.is_ascii_digit()))?;
    (!number.is_empty()).then(|| parse_version(number))
}

/// A number that is too large is of a newer version all the same.
fn parse_version(digits: &str) -> u32 {
    digits.parse().unwrap_or(u32::MAX)
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn looks_like_ours(tag: &str) -> bool {
    tag_version(tag).is_some()
}

fn parse_claim_tag(rest: &str) -> Option<(PoolId, ClaimKey)> {
    let (pool, claim) = rest.split_once('.')?;
    Some((PoolId::parse(pool)?, ClaimKey::parse(claim)?))
}

fn parse_release_tag(rest: &str) -> Option<((PoolId, ClaimKey), Timestamp)> {
    let (owner, at) = rest.rsplit_once('.')?;
    Some((parse_claim_tag(owner)?, parse_time(at)?))
}

/// The floating IP with only the tags of users and other software.
pub(super) fn without_marks(fip: &FloatingIp) -> FloatingIp {
    let tags = fip.tags.iter().filter(|tag| !looks_like_ours(tag)).cloned().collect();
    FloatingIp { tags, ..fip.clone() }
}

/// That a claim released a floating IP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Release {
    pub owner: (PoolId, ClaimKey),
    pub at: Timestamp,
    /// Whether a tag says so; otherwise the description.
    pub is_tagged: bool,
}

/// The marks of all pools on a floating IP.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// From the description.
    pub created: Option<CreationMark>,
    /// From claim tags.
    pub claims: BTreeSet<(PoolId, ClaimKey)>,
    /// One from each release tag, and one from the description. In a list: there is rarely more than one, and thousands of
    /// floating IPs may be released at once.
    pub releases: Vec<Release>,
    /// Something begins like a mark but does not parse: it was written by a newer version or by hand. Never touched.
    pub is_unreadable: bool,
    /// A mark says that it is of a newer version. It is unreadable too.
    pub is_newer: bool,
}

impl Marks {
    pub fn read(fip: &FloatingIp) -> Self {
        let mut marks = Self { created: CreationMark::parse(&fip.description), ..Self::default() };
        marks.is_unreadable = marks.created.is_none() && fip.description.starts_with(DESCRIPTION);
        marks.is_newer = description_version(&fip.description).is_some_and(|version| version > VERSION);
        for tag in &fip.tags {
            marks.read_tag(tag);
        }
        if let Some(CreationMark { pool, claim: Some(claim), released: Some(at), .. }) = &marks.created {
            let owner = (pool.clone(), claim.clone());
            marks.releases.push(Release { owner, at: *at, is_tagged: false });
        }
        // It has room for four.
        marks.releases.shrink_to_fit();
        marks
    }

    fn read_tag(&mut self, tag: &str) {
        if let Some(rest) = tag.strip_prefix(RELEASE_TAG) {
            match parse_release_tag(rest) {
                Some((owner, at)) => self.releases.push(Release { owner, at, is_tagged: true }),
                None => self.is_unreadable = true,
            }
        } else if let Some(owner) = tag.strip_prefix(CLAIM_TAG).and_then(parse_claim_tag) {
            self.claims.insert(owner);
        } else if let Some(version) = tag_version(tag) {
            self.is_unreadable = true;
            self.is_newer |= version > VERSION;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.created.is_none() && self.claims.is_empty() && self.releases.is_empty() && !self.is_unreadable
    }

    pub fn names(&self, pool: &PoolId) -> bool {
        self.each_pool().any(|named| named == pool)
    }

    pub fn pools(&self) -> BTreeSet<&PoolId> {
        self.each_pool().collect()
    }

    /// Whether several pools have marked it, or a mark cannot be read, which may be another pool's.
    pub fn are_shared(&self) -> bool {
        let mut pools = self.each_pool();
        let first = pools.next();
        self.is_unreadable || pools.any(|pool| Some(pool) != first)
    }

    /// The pool of each mark.
    fn each_pool(&self) -> impl Iterator<Item = &PoolId> {
        let created = self.created.iter().map(|mark| &mark.pool);
        let claims = self.claims.iter().map(|(pool, _)| pool);
        created.chain(claims).chain(self.releases.iter().map(|release| &release.owner.0))
    }

    /// Whether a claim tag, or the description, names the claim, released or not.
    pub(super) fn has_mark_of(&self, owner: &(PoolId, ClaimKey)) -> bool {
        let is_owner = |mark: &CreationMark| mark.pool == owner.0 && mark.claim.as_ref() == Some(&owner.1);
        self.claims.contains(owner) || self.created.as_ref().is_some_and(is_owner)
    }

    /// Every claim of the pool that is named, released or not.
    pub fn claims_of<'a>(&'a self, pool: &'a PoolId) -> BTreeSet<&'a ClaimKey> {
        let created = self.created.iter().filter(|mark| mark.pool == *pool).filter_map(|mark| mark.claim.as_ref());
        let of_pool = move |(owner, claim): &'a (PoolId, ClaimKey)| (owner == pool).then_some(claim);
        let releases = self.releases.iter().map(|release| &release.owner);
        created.chain(self.claims.iter().chain(releases).filter_map(of_pool)).collect()
    }

    /// The pool's tags, claim tags first, so that an interrupted removal leaves the floating IP released.
    pub(super) fn tags_of(&self, pool: &PoolId) -> Vec<String> {
        let claims = self.claims.iter().filter(|(owner, _)| owner == pool);
        let claims = claims.map(|(owner, claim)| claim_tag(owner, claim));
        claims.chain(self.release_tags(|(owner, _)| owner == pool)).collect()
    }

    /// When the claim released it; the first time, if there are several.
    pub fn released_by(&self, owner: &(PoolId, ClaimKey)) -> Option<Timestamp> {
        self.releases.iter().filter(|release| release.owner == *owner).map(|release| release.at).min()
    }

    pub fn is_released_by(&self, owner: &(PoolId, ClaimKey)) -> bool {
        self.released_by(owner).is_some()
    }

    /// The release tags of these claims.
    pub(super) fn release_tags(&self, is_theirs: impl Fn(&(PoolId, ClaimKey)) -> bool) -> impl Iterator<Item = String> {
        let tagged = self.releases.iter().filter(move |release| release.is_tagged && is_theirs(&release.owner));
        tagged.map(|release| release_tag(&release.owner.0, &release.owner.1, release.at))
    }

    /// Who has the floating IP, from a pool's point of view.
    pub fn ownership(&self, pool: &PoolId) -> Ownership {
        if self.is_empty() {
            return Ownership::Unmarked;
        }
        if self.is_unreadable || self.each_pool().any(|other| other != pool) {
            return if self.names(pool) { Ownership::Contested } else { Ownership::Foreign };
        }
        // Most have a description alone, and there are thousands.
        if let (Some(mark), true, true) = (&self.created, self.claims.is_empty(), self.releases.is_empty()) {
            return mark.claim.clone().map_or(Ownership::Unclaimed, Ownership::Claimed);
        }
        let described = self.created.iter().filter_map(|mark| mark.claim.as_ref());
        let owners: BTreeSet<&ClaimKey> = described.chain(self.claims.iter().map(|(_, claim)| claim)).collect();
        let is_released = |claim: &ClaimKey| self.is_released_by(&(pool.clone(), claim.clone()));
        let unreleased: Vec<&&ClaimKey> = owners.iter().filter(|claim| !is_released(claim)).collect();
        // The last owner comes before a claim whose release a takeover left behind.
        let first = self.releases.iter().filter(|release| self.released_by(&release.owner) == Some(release.at));
        let last_release = first.max_by_key(|release| (owners.contains(&release.owner.1), release.at));
        match (unreleased.as_slice(), last_release) {
            ([claim], _) => Ownership::Claimed((**claim).clone()),
            ([], Some(release)) => Ownership::Released { claim: release.owner.1.clone(), at: release.at },
            _ => Ownership::Contested,
        }
    }
}

/// Who has a floating IP, from a pool's point of view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ownership {
    /// No pool has marked it.
    Unmarked,
    /// Another pool's, or a mark that cannot be read, such as one of a newer version: never touched.
    Foreign,
    /// This pool's and another's, or two claims': no claim may have it until one of the marks is removed.
    Contested,
    /// The pool created it and no claim has it.
    Unclaimed,
    Claimed(ClaimKey),
    Released {
        claim: ClaimKey,
        at: Timestamp,
    },
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn longest_pool() -> PoolId {
        pool_id("abcdefghij-123456789")
    }

    fn longest_mark() -> CreationMark {
        CreationMark {
            pool: longest_pool(),
            claim: Some(key("web")),
            released: Timestamp::from_second(Timestamp::MAX.as_second()).ok(),
            is_retained: true,
            ..unclaimed_mark(1)
        }
    }

    fn ownership(fip: Fip) -> Ownership {
        Marks::read(&fip.0).ownership(&pool_id("p"))
    }

    #[test]
    fn a_tag_fits_into_60_characters() {
        for tag in [claim_tag(&longest_pool(), &key("web")), release_tag(&longest_pool(), &key("web"), Timestamp::MAX)]
        {
            assert!(tag.len() <= 60, "{tag} has {}", tag.len());
            assert!(!tag.contains(['/', ',']) && tag == tag.to_lowercase(), "{tag}");
        }
    }

    #[test]
    fn a_description_with_the_longest_names_fits() {
        let (namespace, name) = ("n".repeat(63), "m".repeat(253));
        let text = longest_mark().render(Some((&namespace, &name)));
        assert!(text.len() <= 255, "{}", text.len());
        assert_eq!(CreationMark::parse(&text), Some(longest_mark()));
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        for name in ["é".repeat(127), format!("m{}", "é".repeat(126))] {
            let text = longest_mark().render(Some((&"n".repeat(63), &name)));
            assert!((254..=255).contains(&text.len()), "{}", text.len());
        }
    }

    #[test]
    fn a_rendered_mark_is_parsed_back() {
        for claim in [None, Some(key("web"))] {
            for released in [None, Some(start())] {
                for is_retained in [false, true] {
                    for reader in [None, Some(("team", "web")), Some(("a", "b.c (d=e)"))] {
                        let mark = CreationMark { claim: claim.clone(), released, is_retained, ..unclaimed_mark(1) };
                        assert_eq!(CreationMark::parse(&mark.render(reader)), Some(mark));
                    }
                }
            }
        }
    }

    #[test]
    fn the_claim_in_a_description_is_read_back() {
        let mark = unclaimed_mark(1).given_to(&key("web"));
        for reader in [("team", "web"), ("a", "b.c (d=e)")] {
            assert_eq!(claim_in_description(&mark.render(Some(reader))), Some(reader));
        }
        for text in [mark.render(None).as_str(), "mail", "mail (claim web in team)", "caip-openstack  (claim web)"] {
            assert_eq!(claim_in_description(text), None, "{text}");
        }
    }

    #[test]
    fn tags_are_read_back() {
        let marks = Marks::read(&fip(10).tagged_for("web").released_by("db", start()).tag("theirs").0);
        assert_eq!(marks.claims, [(pool_id("p"), key("web"))].into());
        assert_eq!(marks.released_by(&(pool_id("p"), key("db"))), Some(start()));
        assert!(!marks.is_unreadable && marks.created.is_none());
    }

    #[test]
    fn a_claim_may_have_several_release_tags() {
        let (web, db) = ((pool_id("p"), key("web")), (pool_id("p"), key("db")));
        let mut fip = fip(10).released_by("db", start());
        for at in [ago(3), ago(5)] {
            fip = fip.released_by("web", at);
        }
        let marks = Marks::read(&fip.0);
        let tags: BTreeSet<String> = marks.release_tags(|owner| *owner == web).collect();
        assert_eq!(tags, [ago(3), ago(5)].map(|at| release_tag(&web.0, &web.1, at)).into());
        assert_eq!((marks.released_by(&web), marks.released_by(&db)), (Some(ago(5)), Some(start())), "the first time");
        assert_eq!(marks.ownership(&web.0), Ownership::Released { claim: db.1, at: start() }, "the last one");
    }

    #[test]
    fn a_release_in_the_description_has_no_tag_and_counts_as_one() {
        let mark = CreationMark { claim: Some(key("web")), released: Some(ago(9)), ..unclaimed_mark(1) };
        let described = || fip(10).described(mark.render(None));
        let read = |fip: Fip| {
            let marks = Marks::read(&fip.0);
            (marks.released_by(&(pool_id("p"), key("web"))), marks.release_tags(|_| true).count())
        };
        assert_eq!(read(described()), (Some(ago(9)), 0));
        assert_eq!(read(described().released_by("web", ago(3))), (Some(ago(9)), 1), "the first time");
    }

    #[test]
    fn malformed_marks_are_foreign() {
        let good = unclaimed_mark(1).render(None);
        let texts = [
            good.replace("nonce=", "once="),
            good.replace("nonce00001", "short"),
            format!("{good} new=field"),
            format!("{good} pool=p"),
            format!("{good} "),
            format!("{good} out=-1"),
            format!("{good} out=+1"),
            format!("{good} out=1A"),
            "caip-openstack ".into(),
        ];
        for text in texts {
            let fip = fip(10).described(text.clone());
            assert!(Marks::read(&fip.0).is_unreadable, "{text}");
            assert_eq!(ownership(fip), Ownership::Foreign, "{text}");
        }
        let tag = claim_tag(&pool_id("p"), &key("web"));
        for tag in [
            "caip.p",
            "caip.",
            "caip-out.p.x.1",
            "caip-out.p.aaaabbbbccccdddd.-1",
            &format!("{tag}.more"),
            &tag.to_uppercase(),
            "CAIP-OUT.x",
        ] {
            assert_eq!(ownership(fip(10).tag(tag)), Ownership::Foreign, "{tag}");
        }
    }

    #[test]
    fn unrelated_tags_and_descriptions_are_not_marks() {
        for tag in ["caipirinha", "CAIP", "prod", "capo.p.x", ""] {
            assert!(Marks::read(&fip(10).tag(tag).described("for the office").0).is_empty(), "{tag}");
        }
    }

    #[test]
    fn a_mark_that_is_given_or_given_back_is_not_released() {
        let mark =
            CreationMark { claim: Some(key("db")), released: Some(start()), is_retained: true, ..longest_mark() };
        let given = mark.given_to(&key("web"));
        assert_eq!((given.claim, given.released, given.is_retained), (Some(key("web")), None, false));
        let back = mark.given_back();
        assert_eq!((back.claim, back.released, back.is_retained), (None, None, true));
    }

    #[test]
    fn a_mark_of_a_newer_version_is_recognized_and_makes_the_floating_ip_someone_elses() {
        let key = key("web");
        let newer = [
            fip(1).described("caip-openstack v=2 pool=p nonce=nonce00001"),
            fip(1).described("caip-openstack v=2 "),
            fip(1).described("caip-openstack v=99999999999 anything"),
            fip(1).tag("caip2."),
            fip(1).tag(format!("caip2.p.{key}")),
            fip(1).tag(format!("caip10-out.p.{key}.6a1f3c20")),
            fip(1).tag("CAIP2.p"),
            fip(1).tag("caip99999999999.p"),
        ];
        for fip in newer {
            let marks = Marks::read(&fip.0);
            assert!(marks.is_newer && marks.is_unreadable && !marks.is_empty(), "{:?}", fip.0);
            assert_eq!(marks.ownership(&pool_id("p")), Ownership::Foreign, "{:?}", fip.0);
        }
    }

    #[test]
    fn a_mark_of_a_newer_version_beside_ours_is_contested() {
        let newer = "caip2.p";
        for ours in
            [fip(1).created_for("web"), fip(1).idle(), fip(1).tagged_for("web"), fip(1).released_by("web", ago(9))]
        {
            assert_eq!(ownership(ours.tag(newer)), Ownership::Contested);
        }
        let rewritten = fip(1).tagged_for("web").described("caip-openstack v=2 pool=p");
        assert_eq!(ownership(rewritten), Ownership::Contested);
    }

    #[test]
    fn no_other_text_is_a_mark_of_a_newer_version() {
        let unreadable = [
            fip(1).described("caip-openstack v=1 pool=p"),
            fip(1).described("caip-openstack v= pool=p"),
            fip(1).described("caip-openstack v=two"),
            fip(1).tag("caip1.p"),
            fip(1).tag("caip0-out.p"),
            fip(1).tag("caip.new"),
        ];
        for fip in unreadable {
            let marks = Marks::read(&fip.0);
            assert!(marks.is_unreadable && !marks.is_newer, "{:?}", fip.0);
        }
        for tag in ["caip", "caip2", "caip2out.p", "caip2-p", "caip-p", "caipé.p", "caip2é", "my-caip2.p"] {
            assert!(Marks::read(&fip(1).tag(tag).0).is_empty(), "{tag}");
        }
        let ours = fip(1).created_for("web").released_by("web", ago(9)).tagged_for("db");
        assert!(!Marks::read(&ours.0).is_unreadable);
    }

    #[test]
    fn ownership_follows_from_the_marks() {
        let held = |claim: &str| Ownership::Claimed(key(claim));
        let out = |claim: &str, at| Ownership::Released { claim: key(claim), at };
        let table = [
            ("nothing on it", fip(1), Ownership::Unmarked),
            ("created, free", fip(1).idle(), Ownership::Unclaimed),
            ("created for a claim", fip(1).created_for("web"), held("web")),
            ("tagged for a claim", fip(1).tagged_for("web"), held("web")),
            ("tagged for two", fip(1).tagged_for("web").tagged_for("db"), Ownership::Contested),
            ("created for one, tagged for another", fip(1).created_for("web").tagged_for("db"), Ownership::Contested),
            ("created and released", fip(1).created_for("web").released_by("web", ago(9)), out("web", ago(9))),
            ("tagged and released", fip(1).tagged_for("web").released_by("web", ago(9)), out("web", ago(9))),
            ("only the release is left", fip(1).released_by("web", ago(9)), out("web", ago(9))),
            (
                "released twice, the first counts",
                fip(1).tagged_for("web").released_by("web", ago(9)).released_by("web", ago(5)),
                out("web", ago(9)),
            ),
            ("taken over from another", fip(1).created_for("web").released_by("db", ago(9)), held("web")),
            (
                "taken over, and released too",
                fip(1).created_for("web").released_by("db", ago(9)).released_by("web", ago(5)),
                out("web", ago(5)),
            ),
            ("another pool's", fip(1).tagged_by_another_pool(), Ownership::Foreign),
            ("ours and another pool's", fip(1).tagged_for("web").tagged_by_another_pool(), Ownership::Contested),
            ("ours and unreadable", fip(1).created_for("web").tag("caip.new"), Ownership::Contested),
        ];
        for (what, fip, expected) in table {
            assert_eq!(ownership(fip), expected, "{what}");
        }
    }
}
