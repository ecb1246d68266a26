#!/usr/bin/env bash
# Fails unless every file names the version of a tag:  check.sh TAG
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 1 ] || die "usage: check.sh TAG"
[[ $1 =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || die "the tag must be vMAJOR.MINOR.PATCH, not '$1'"
wanted=${1#v} status=0
cd "$PROJECT"

expect() { # WHAT VERSION
  [ "$2" = "$wanted" ] || { say "error: $1 names version '$2', not $wanted"; status=1; }
}
of_lock_file() { sed -n '/^name = "caip-openstack"$/ { n; s/^version = "\(.*\)"/\1/p }' "$1"; }
of_yaml() { sed -n "s/^ *$2: //p" "$1"; } # FILE KEY

expect Cargo.toml "$VERSION"
for file in Cargo.lock tests/fuzz/Cargo.lock; do expect $file "$(of_lock_file $file)"; done
expect config/chart/Chart.yaml "$(of_yaml config/chart/Chart.yaml version)"
expect "config/chart/Chart.yaml (appVersion)" "$(of_yaml config/chart/Chart.yaml appVersion | sed 's/^v//')"
expect config/operator/ipam-provider.yaml "$(of_yaml config/operator/ipam-provider.yaml version | sed 's/^v//')"
IFS=. read -r major minor _ <<<"$wanted"
tr -d ' \n' <config/clusterctl/metadata.yaml | grep -q -- "-major:${major}minor:${minor}contract:" ||
  { say "error: config/clusterctl/metadata.yaml has no release series $major.$minor"; status=1; }
# The images and archives of the documents and of the operator's manifest.
others=$(grep -rnoE 'caip-openstack[:-]v?[0-9]+\.[0-9]+\.[0-9]+' README.md docs config/operator | grep -v "[:-]v\?${wanted//./\\.}$" || true)
[ -z "$others" ] || { say "error: these do not name version $wanted:"$'\n'"$others"; status=1; }
notes=$("$PROJECT/hack/release/notes.sh") || status=1
# They become the text of the release.
! grep -qi 'released yet' <<<"$notes" || { say "error: the changelog says that $wanted is not released yet"; status=1; }
exit $status
