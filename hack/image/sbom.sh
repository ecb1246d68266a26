#!/usr/bin/env bash
# Prints the SBOM of our programs, as CycloneDX:  sbom.sh TARGET CRATES <OTHERS
#   TARGET    as Rust names it
#   CRATES    a file for the list of the linked crates, "NAME vVERSION" a line
#   OTHERS    what else is linked into the program or comes with it, as program.sh prints it
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 2 ] || die "usage: sbom.sh TARGET CRATES <OTHERS"
CYCLONEDX=0.5.9 # by the CycloneDX project itself
tool=$IMAGE_CACHE/cargo-cyclonedx-$CYCLONEDX
[ -x "$tool/bin/cargo-cyclonedx" ] || {
  say "image: building cargo-cyclonedx $CYCLONEDX (only once)"
  env -u RUSTFLAGS CARGO_TARGET_DIR="$tool.build" cargo install --locked -q --debug --no-track --root "$tool" \
    "cargo-cyclonedx@$CYCLONEDX" </dev/null >&2 && rm -rf "$tool.build"
}
(cd "$PROJECT" && cargo tree --locked --target "$1" -e normal,no-proc-macro --prefix none) >"$2"
# cargo-cyclonedx writes into the folder of Cargo.toml.
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
cp "$PROJECT"/Cargo.{toml,lock} "$sources"
ln -s "$PROJECT"/{src,tests,hack} "$sources"
(cd "$sources" && "$tool/bin/cargo-cyclonedx" cyclonedx -qq --format json --spec-version 1.5 --no-build-deps --all \
  --target "$1" --override-filename bom </dev/null)
python3 -B "$ROOM/sbom.py" "$sources/bom.json" "$2"
