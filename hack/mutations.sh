#!/usr/bin/env bash
# Breaks the allocation core on purpose, one line at a time, and sees that the laws notice.
#
#   hack/mutations.sh            all of them
#   hack/mutations.sh 1 6        those of laws 1 and 6
#
# Each mutation is made in a scratch copy of the core; the tests run there. Exits with 1 when neither the laws nor a unit
# test notices one.
# CASES (default 3000) is how many histories each property may take to find it; MUTATIONS_TARGET_DIR is where cargo
# builds (default: mutations/ in the tree's own target folder), so that the second run is quick.
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cases=${CASES:-3000}
export CARGO_TARGET_DIR=${MUTATIONS_TARGET_DIR:-${CARGO_TARGET_DIR:-$root/target}/mutations}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
wanted=" $* "
survived=0
count=0

# The core alone, as a package of its own: it needs neither kube nor HTTP, so that a mutation builds in seconds.
fresh() {
    rm -rf "${scratch:?}"/*
    mkdir -p "$scratch/src" "$scratch/tests"
    cp -R "$root/src/allocation" "$root/src/allocation.rs" "$root/src/floating_ip.rs" "$scratch/src/"
    cp -R "$root/tests/laws" "$scratch/tests/"
    cp "$root/Cargo.lock" "$scratch/"
    echo 'pub mod allocation; pub mod floating_ip;' >"$scratch/src/lib.rs"
    {
        printf '[package]\nname = "caip-openstack"\nversion = "0.0.0"\nedition = "2024"\n[[test]]\nname = "laws"\n'
        printf 'path = "tests/laws/main.rs"\n[profile.dev]\nopt-level = 1\n[dependencies]\n'
        grep -E '^(ipnet|jiff|proptest|serde|sha2|thiserror) = ' "$root/Cargo.toml"
    } >"$scratch/Cargo.toml"
}

# The names of the tests that failed, by the last part of their path.
failed() {
    sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' | sed 's/.*:://' | paste -sd, - | sed 's/,/, /g'
}

run() {
    (cd "$scratch" && cargo test "$@" 2>&1)
}

# break LAW WHAT FROM TO: the text FROM, which must be in the core exactly once, becomes TO.
break_it() {
    local law=$1 what=$2 from=$3 to=$4 output unit laws how
    if [ "$wanted" != "  " ] && [[ $wanted != *" $law "* ]]; then return; fi
    fresh
    # shellcheck disable=SC2016 # Perl reads its own variables
    if ! find "$scratch/src/allocation" -name '*.rs' ! -name tests.rs -print0 | FROM=$from TO=$to xargs -0 perl -0pi -e \
        '$n += s/\Q$ENV{FROM}\E/$ENV{TO}/g; END { $n == 1 or die "found $n times\n" }'; then
        printf '| %s | %s | cannot be made: the core has changed | |\n' "$law" "$what"
        survived=$((survived + 1))
        return
    fi
    count=$((count + 1))
    output=$(PROPTEST_CASES=$cases PROPTEST_MAX_SHRINK_ITERS=0 run --quiet --test laws -- --format=pretty)
    laws=$(failed <<<"$output")
    how=$(sed -n 's/^Test failed: [^:]*: \(law [0-9]\).*/\1/p' <<<"$output" | sort -u | paste -sd, - | sed 's/,/, /g')
    if grep -q '^error' <<<"$output" && [ -z "$laws" ]; then
        laws="does not build"
        grep -m3 -A4 '^error' <<<"$output" >&2
        survived=$((survived + 1))
    else
        [ -n "$laws" ] && laws="${how:-a panic}"
        unit=$(run --quiet --lib -- --format=pretty | failed)
        if [ -z "$laws$unit" ]; then
            laws="**survived**"
            survived=$((survived + 1))
        fi
    fi
    printf '| %s | %s | %s | %s |\n' "$law" "$what" "$laws" "${unit:-}"
}

echo "| law | what is broken | histories break | unit tests that fail |"
echo "|---|---|---|---|"

# Law 1: no address is held by two live claims.
break_it 1 "an address that another claim is at work on is chosen" \
    'entry.hold.is_none() && entry.doubts.is_empty() && !entry.fip.is_attached()' \
    'entry.doubts.is_empty() && !entry.fip.is_attached()'
break_it 1 "an address that another claim is at work on is recovered" \
    'let is_at_hand = others.all(|hold| *hold == mine);' 'let is_at_hand = others.all(|hold| *hold == mine) || true;'
break_it 1 "a tag is not read back" \
    'entry.hold.is_some() && !entry.marks.claims.is_empty() && !entry.is_confirmed()' 'false'
break_it 1 "an IPAddress of ours names one id, not its address" \
    'self.fip == fip.id || self.network.as_ref().is_none_or(|network| *network == fip.network)' 'self.fip == fip.id'
break_it 1 "an address in doubt is chosen" \
    'entry.hold.is_none() && entry.doubts.is_empty() && !entry.fip.is_attached()' \
    'entry.hold.is_none() && !entry.fip.is_attached()'
# Law 2: what has a port, or another owner, is neither handed out nor released.
break_it 2 "an address with a port is chosen" \
    'entry.doubts.is_empty() && !entry.fip.is_attached()' 'entry.doubts.is_empty()'
break_it 2 "a port that came before the mark is not looked at" \
    'let is_unsure = entry.fip.is_attached() && (entry.hold.is_some() || is_disowned(pool, claim, entry));' \
    'let is_unsure = false;'
break_it 2 "another owner's mark is ignored when reusing" \
    '&& entry.marks.is_empty()
        && pool.may_reuse' '&& pool.may_reuse'
break_it 2 "a released address goes without being seen again" \
    'if !entry.is_confirmed() {
            self.sweep.look_again = true;
            return;
        }
        let rested' 'let rested'
# Law 3: nothing is deleted that we did not create.
break_it 3 "what is released is deleted, whoever created it" \
    'return self.sweep.chores.push(Chore::Rewrite { id, description: None, tags });' \
    'return self.sweep.chores.push(Chore::Delete(id));'
# Law 4: nothing leaks.
break_it 4 "a second address of a living claim is never an orphan" \
    '*living == Living::Goes || !has_other()' '*living == Living::Goes || !has_other() || true'
break_it 4 "a pool goes while its POST may still land" \
    'ledger.fence(pool).is_some() || ledger.is_in_doubt(&pool.id);' 'false;'
break_it 4 "our mark beside another owner's stays" \
    'Standing::Contested => self.contested(entry),' 'Standing::Contested => {}'
# Law 5: the same claim, the same address.
break_it 5 "marks are not looked at for an address of the claim's" \
    'ledger.of_claim(&pool.id, &claim.key).filter(by_mark).min_by_key(rank)' \
    'ledger.of_claim(&pool.id, &claim.key).filter(by_mark).filter(|_| false).min_by_key(rank)'
break_it 5 "a released address is taken back behind the fence" \
    '(Decision::TakeBack(..), _) | (Decision::Keep(_), None) if ledger.fence(pool).is_some()' \
    '(Decision::TakeBack(..), _) if false'
# Law 6: never more than maxIPs.
break_it 6 "creations under way do not count" \
    'marked + self.creating(pool) + at_work' 'marked + at_work'
break_it 6 "what is chosen, or in doubt, does not count" \
    'marked + self.creating(pool) + at_work.filter(chosen).count()' 'marked + self.creating(pool) + at_work.filter(chosen).count() * 0'
break_it 6 "a late POST of a predecessor's is forgotten" \
    'if pool.max_ips.is_some() && ledger.fence(pool).is_some()' 'if false'
break_it 6 "a creation in doubt is settled by the first look" \
    '!is_settled(since) && !known' 'since > began_at && !known'
# Law 7: a refusal is justified, and the order of choice is kept.
break_it 7 "those that wait for a reservation stand before the others" \
    'pool.without_reservation(ledger.waiting(&pool.id)).take_while' 'ledger.waiting(&pool.id).take_while'
break_it 7 "the oldest is not served first" \
    'take_while(|other| **other < place).count()' 'take_while(|other| **other < place).count() * 0'
break_it 7 "a released address is given before it has rested" \
    'now.duration_since(at) >= pool.grace && entry.is_confirmed()' 'entry.is_confirmed()'
break_it 7 "an address that is reserved for another claim is given" \
    '&& self.reserved_for(address).is_none_or(|owner| owner == claim_name)' '&& claim_name.len() < 1000'
# Law 8: quiet when settled.
break_it 8 "spares that are there are made again" \
    'saturating_sub(self.spares + coming)' 'saturating_sub(coming)'
break_it 8 "a stale release is looked for where there is none" \
    'if !stale.is_empty() {' 'if true {'
break_it 8 "what is asked for to see whether Neutron still refuses is told as the limit" \
    'self.counted(pool) >= limit.saturating_add(probes)' 'self.counted(pool) >= limit.saturating_add(probes * 0)'
# Law 9: deletion ends.
break_it 9 "a pool that goes waits for what is in use" \
    'if entry.hold.is_some() || !entry.doubts.is_empty() || !entry.is_confirmed() {' \
    'if entry.fip.is_attached() || entry.hold.is_some() || !entry.doubts.is_empty() || !entry.is_confirmed() {'
break_it 9 "a claim that goes tags what is tagged already" \
    'if entry.marks.releases.contains_key(&mine) {' 'if false {'

echo
echo "$count mutations; $survived survived"
[ "$survived" -eq 0 ]
