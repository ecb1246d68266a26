#!/usr/bin/env bash
# Unpacks Debian packages into a folder, without installing them and without root:
#   debian.sh FOLDER PACKAGE[:ARCHITECTURE][=VERSION]...
# Prints the name, version and architecture of each. The packages come from the system's sources, whose keys apt checks.
# The package lists are private, so that the system need not know the other architecture.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -gt 1 ] || die "usage: debian.sh FOLDER PACKAGE[:ARCHITECTURE][=VERSION]..."
into=$(realpath -m "$1")
shift
have apt-get || die "apt-get is needed: CA certificates (and Rust for another architecture) come from Debian"
APT=$IMAGE_CACHE/apt
mkdir -p "$APT/lists/partial" "$APT/cache/archives/partial" "$APT/debs" "$into"
lock 9 "$APT/lock" "asks Debian for packages"
own=$(dpkg --print-architecture)
options=(
  -o "Dir::State::lists=$APT/lists" -o "Dir::Cache=$APT/cache" -o "APT::Sandbox::User=$(id -un)"
  -o "APT::Architectures::=$own" -o APT::Architectures::=amd64 -o APT::Architectures::=arm64
)

# Once a day, so that the certificates are recent and a second build does not wait.
if [ -z "$(find "$APT" -maxdepth 1 -name updated -mmin -1440)" ]; then
  if apt-get "${options[@]}" -q update >"$APT/update.log" 2>&1; then
    touch "$APT/updated"
  else
    say "image: Debian's lists cannot be updated ($APT/update.log); using the old ones"
  fi
fi

for package; do
  uri=$(apt-get "${options[@]}" download --print-uris "$package" 2>"$APT/download.log") ||
    { tail -n 3 "$APT/download.log" >&2; die "Debian has no package $package"; }
  file=$APT/debs/$(cut -d' ' -f2 <<<"$uri")
  [ -e "$file" ] || (cd "$APT/debs" && apt-get "${options[@]}" -q download "$package" >"$APT/download.log" 2>&1) ||
    { tail -n 3 "$APT/download.log" >&2; die "apt-get cannot download $package; see $APT/download.log"; }
  dpkg-deb -x "$file" "$into"
  # shellcheck disable=SC2016 # dpkg's variables
  dpkg-deb -W --showformat='${Package} ${Version} ${Architecture}\n' "$file"
done
