//! Generated histories that broke a law, shrunk, and what was wrong.

use crate::history::Edit::*;
use crate::history::Event::{self, *};
use crate::history::{Owners, Restoration, Tampering, replay};
use crate::world::Start;

fn assert_lawful(start: &Start, events: &[Event]) {
    replay(start, events).assert_lawful();
}

/// Law 5. The IPAddress of a claim was deleted while a pool of another management cluster wrote its mark on the address,
/// from an outdated view in which the address was free. Each saw the other's mark, and both withdrew.
#[test]
fn a_claim_without_its_ip_address_waits_until_another_pool_withdraws() {
    let start = Start { seed: 20782000559, sites: 2, replicas: 2, slowest: 120, is_logged: true };
    let events = [
        CreatePool(0),
        CreatePool(3),
        CreateFloatingIp(0),
        CreateFloatingIp(1),
        Edit(0, List(0)),
        Edit(3, Reuse(1)),
        Pass(6100),
        Edit(236, Reserve(80, 149)),
        Pass(3500),
        CreateClaim(117),
        CreateClaim(123),
        Pass(120),
        CreateClaim(136),
        CreateClaim(47),
        DeleteAddress(207),
    ];
    assert_lawful(&start, &events);
}

/// Law 5. A claim was bound to an address while its tag landed late on another one, and its IPAddress was deleted before
/// that tag was removed. The next process took the other address: it did not know which tag was late.
#[test]
fn a_late_tag_does_not_win_after_a_restart() {
    let start = Start { seed: 20782005114, sites: 1, replicas: 2, slowest: 15, is_logged: true };
    let events = [
        CreatePool(2),
        CreateFloatingIp(1),
        Edit(0, List(1)),
        Pass(7000),
        Outage(146, 58, 223, 55),
        CreateClaim(56),
        Pass(600),
        Freeze(245, 52),
        Pass(7000),
        Terminate(128),
        DeleteAddress(38),
    ];
    assert_lawful(&start, &events);
}

/// Law 1. A user deleted the floating IP of a bound claim, Neutron gave its address again, for another claim, and the reply
/// was lost: found in a listing, it was published, although the first claim's IPAddress named its address.
#[test]
fn an_address_that_is_still_published_is_not_given_if_the_reply_was_lost() {
    let start = Start { seed: 20782001202, sites: 1, replicas: 1, slowest: 120, is_logged: true };
    let events = [
        CreatePool(2),
        CreatePool(3),
        Edit(230, List(140)),
        CreateFloatingIp(164),
        Pass(3500),
        CreateClaim(31),
        Pass(3500),
        CreateClaim(104),
        Pass(600),
        Tamper(201, Tampering::Delete),
        Outage(128, 1, 3, 12),
        CreateClaim(0),
        Pass(135),
    ];
    assert_lawful(&start, &events);
}

/// Law 1. The same, when the process ended before it read the reply.
#[test]
fn an_address_that_is_still_published_is_not_given_by_the_next_process() {
    let start = Start { seed: 20782011414, sites: 1, replicas: 2, slowest: 15, is_logged: true };
    let events = [
        CreatePool(2),
        CreatePool(3),
        CreateFloatingIp(62),
        CreateFloatingIp(127),
        CreateClaim(102),
        Pass(3500),
        Terminate(76),
        Fault(57, 30, 63),
        CreateClaim(37),
        Tamper(87, Tampering::Delete),
        Pass(600),
    ];
    assert_lawful(&start, &events);
}

/// Law 8. A network had only excluded addresses left, and the pool wanted a free one: whenever it tried, its status counted
/// what Neutron offered, and again what was deleted.
#[test]
fn the_status_does_not_count_what_neutron_offers_and_the_pool_does_not_want() {
    let start = Start { seed: 20782010895, sites: 1, replicas: 1, slowest: 900, is_logged: true };
    let events = [
        CreatePool(2),
        CreatePool(3),
        Edit(49, ExcludeRange(58)),
        Edit(241, ExcludeRange(6)),
        Edit(83, ExcludeRange(129)),
        Edit(73, MinFree(38)),
        CreateClaim(196),
        Pass(7000),
        CreateClaim(209),
        Pass(290),
        Fault(140, 35, 182),
        StartMachine(239),
        CreateClaim(15),
        Pass(5812),
        Pass(3500),
        DeleteClaim(161),
        Kill(153),
    ];
    assert_lawful(&start, &events);
}

/// Law 5. The tag of another pool's claim landed late on the address, after its process had died and the next one had given
/// that claim another address. It stayed for as long as an orphan does, and the claim that had lost its IPAddress waited
/// no longer than a minute.
#[test]
fn a_tag_that_lands_late_is_removed_before_the_other_owner_gives_up() {
    let start = Start { seed: 20790003221, sites: 2, replicas: 1, slowest: 2, is_logged: true };
    let events = [
        CreatePool(1),
        CreatePool(2),
        CreateFloatingIp(0),
        Edit(1, List(0)),
        Edit(2, List(0)),
        Edit(2, List(3)),
        Pass(30),
        CreateClaim(146),
        Outage(41, 7, 206, 40),
        CreateClaim(25),
        Outage(70, 95, 69, 46),
        CreateClaim(10),
        Pass(3500),
        FaultInWrite(2, 4),
        Pass(2752),
        DeleteClaim(14),
        Pass(3),
        DeleteAddress(13),
    ];
    assert_lawful(&start, &events);
}

/// Law 1. The tag of another management cluster landed late on the address of a claim that was being deleted, and the process
/// died as it sent the release tag. The next one removed the claim's tag at once, and its IPAddress only when the fence ended:
/// in between the other cluster published the address.
#[test]
fn an_address_that_another_owner_waits_for_is_not_named_any_more_when_it_is_given_up() {
    let start = Start { seed: 20910040219, sites: 2, replicas: 2, slowest: 120, is_logged: true };
    let events = [
        CreatePool(0),
        CreatePool(1),
        CreateFloatingIp(3),
        Edit(0, List(3)),
        Edit(1, List(3)),
        CreateClaim(103),
        CreateClaim(28),
        Pass(120),
        Outage(129, 1, 5, 12),
        CreateClaim(5),
        Pass(170),
        FaultInWrite(128, 5),
        DeleteClaim(4),
        Pass(1785),
    ];
    assert_lawful(&start, &events);
}

/// Law 8. Everything was restored while the watch of the claims stalled. The IPAddress got the earlier claim for an owner, the
/// garbage collector removed that, and so on, twelve times a second.
#[test]
fn an_ip_address_gets_no_owner_that_does_not_exist_any_more() {
    let start = Start { seed: 20920230102, sites: 1, replicas: 1, slowest: 2, is_logged: true };
    let events = [
        CreatePool(2),
        CreateClaim(10),
        Pass(3258),
        Restore(174, Restoration { order: 5, gap: 8, owners: Owners::Dropped, has_status: false, is_stopped: true }),
        Stall(217, 39, false),
        CreateClaim(5),
        Pass(189),
        Freeze(129, 54),
        Restore(52, Restoration { order: 5, gap: 1, owners: Owners::Moved, has_status: false, is_stopped: false }),
    ];
    assert_lawful(&start, &events);
}

/// Nothing was wrong but a law. A user copied a pool, removed the original by force, and marked the address of a bound claim as
/// released. No pool serves that claim any more, so nothing writes its mark again; but as long as its IPAddress is there, the
/// copy, which has the pool's id, does not delete the address.
#[test]
fn a_copy_of_a_pool_that_is_gone_keeps_a_released_address_that_an_ip_address_names() {
    let start = Start { seed: 20930030012, sites: 2, replicas: 1, slowest: 900, is_logged: true };
    let events = [
        CreatePool(2),
        CreateClaim(6),
        Pass(7000),
        ToggleCopiedPool(6),
        ForceDeletePool(106),
        Tamper(7, Tampering::MarkReleased(false)),
    ];
    assert_lawful(&start, &events);
}

/// Law 7. Neutron offered an excluded address for the spare one of a pool, which filled the pool's limit. It was deleted
/// without another request, and new claims were refused for up to a quarter of an hour, although there were others.
#[test]
fn an_unwanted_offer_for_a_spare_address_does_not_keep_claims_from_the_others() {
    let start = Start { seed: 20790001578, sites: 1, replicas: 2, slowest: 15, is_logged: true };
    let events = [
        CreatePool(2),
        CreatePool(3),
        Edit(145, MinFree(109)),
        Edit(73, Exclude(55)),
        Edit(9, Limit(219)),
        CreateFloatingIp(176),
        CreateFloatingIp(85),
        CreateClaim(97),
        Pass(120),
        CreateClaim(126),
        CreateClaim(82),
        CreateClaim(23),
        Pass(3500),
    ];
    assert_lawful(&start, &events);
}

/// Law 2. A user copied an IPAddress to another claim's name, deleted its claim, and attached its floating IP: the other
/// claim took it, from a view in which it had no port, and did not read it back.
#[test]
fn a_released_address_with_a_port_is_not_given_to_a_claim_with_a_copied_ip_address() {
    let start = Start { seed: 20800002107, sites: 2, replicas: 1, slowest: 2, is_logged: true };
    let events = [
        CreatePool(3),
        CreateClaim(11),
        Pass(1500),
        CopyAddress(11, 15),
        CreateClaim(15),
        Tamper(97, Tampering::Attach),
        DeleteClaim(95),
    ];
    assert_lawful(&start, &events);
}

/// Law 5. A user copied an IPAddress, deleted the original, and wrote a tag of a claim that does not exist on the floating
/// IP. The sweep removed the mark of the claim that had it, too, since the copy came first, and the copy's claim took it.
#[test]
fn a_claim_keeps_its_mark_although_a_copy_of_its_ip_address_exists() {
    let start = Start { seed: 20800006169, sites: 2, replicas: 2, slowest: 2, is_logged: true };
    let events = [
        CreatePool(0),
        CreateClaim(8),
        Pass(1500),
        CopyAddress(8, 12),
        CreateClaim(12),
        DeleteAddress(236),
        Tamper(3, Tampering::MarkForNobody),
    ];
    assert_lawful(&start, &events);
}

/// Law 8. In a used-up network, a pool wanted a spare address: each attempt filled the room that `maxIPs` left for its free
/// ones, so that its status counted fewer of them, and the same again a moment later.
#[test]
fn the_status_does_not_change_with_each_attempt_at_a_spare_address() {
    let start = Start { seed: 20810010010, sites: 2, replicas: 1, slowest: 2, is_logged: true };
    let events = [
        CreatePool(0),
        CreatePool(1),
        CreatePool(2),
        Edit(177, Reuse(94)),
        Edit(101, MinFree(20)),
        Edit(9, AddressConfigMap(178)),
        Edit(237, Limit(40)),
        CreateFloatingIp(97),
        CreateFloatingIp(51),
        CreateFloatingIp(11),
        CreateClaim(165),
        CreateClaim(34),
        CreateClaim(228),
        CreateClaim(4),
        CreateClaim(5),
    ];
    assert_lawful(&start, &events);
}

/// Law 8. Claims were lost in a restore, and the watch showed them for a while: each got an IPAddress, lost it, since it did
/// not exist, and got it again, 400 times a minute.
#[test]
fn a_claim_that_is_gone_is_served_once_although_the_watch_still_shows_it() {
    let start = Start { seed: 20840017135, sites: 2, replicas: 1, slowest: 15, is_logged: true };
    let restore = |order, gap, owners, is_stopped| Restoration { order, gap, owners, has_status: false, is_stopped };
    let events = [
        CreatePool(0),
        CreateClaim(210),
        Pass(600),
        Restore(112, restore(1, 7, Owners::Dropped, true)),
        CreateClaim(84),
        Pass(7000),
        Pass(5549),
        CreateClaim(20),
        Hang(252, 186, 21),
        Pass(3500),
        Pass(20000),
        Fault(168, 23, 137),
        Restore(210, restore(5, 7, Owners::Kept, false)),
        Restore(222, restore(1, 10, Owners::Dropped, false)),
    ];
    assert_lawful(&start, &events);
}

/// Law 8. A claim took its released floating IP back, the reply to the removal of the tag was lost, and a port forwarding was
/// created meanwhile. It gave the floating IP up, and did so again at each step until the removal could not land any more:
/// the tag that was to be removed still named the claim.
#[test]
fn a_floating_ip_that_was_being_taken_back_is_given_up_once() {
    let start = Start { seed: 25500005470, sites: 2, replicas: 1, slowest: 2, is_logged: true };
    let events = [
        CreatePool(0),
        CreatePool(2),
        CreatePool(3),
        Edit(214, Exclude(72)),
        Edit(192, List(98)),
        CreateClaim(48),
        Pass(20000),
        CreateClaim(7),
        CreateClaim(231),
        Pass(600),
        Alter(103),
        Pass(3500),
        CreateClaim(6),
        Pass(1500),
        CreateClaim(10),
        Pass(1500),
        DeleteClaim(10),
        Pass(282),
        Pass(4697),
        Tamper(104, Tampering::Forward),
        Outage(128, 1, 55, 5),
        CreateClaim(10),
        Pass(3167),
    ];
    assert_lawful(&start, &events);
}

/// Law 8. A claim that waited was deleted while calls of the process before could take effect. Each look at it woke the
/// sweep, which had an address for those that wait, and woke it again.
#[test]
fn a_claim_that_is_being_deleted_is_not_woken_as_one_that_waits() {
    let start = Start { seed: 25700004964, sites: 2, replicas: 2, slowest: 2, is_logged: true };
    let events = [
        CreatePool(0),
        CreateClaim(8),
        Pass(535),
        DeleteClaim(8),
        Fault(250, 9, 83),
        Alter(2),
        CreateClaim(4),
        Pass(2000),
        CreateClaim(228),
        Pass(120),
        DeleteClaim(72),
    ];
    assert_lawful(&start, &events);
}
