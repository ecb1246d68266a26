# shellcheck shell=bash disable=SC2034 # what is set here is used where it is sourced
# What the scripts of this folder share: versions, folders, platforms. Sourced, never run.
# shellcheck source=../env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"

ROOM=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PROJECT=$(cd "$ROOM/../.." && pwd)
IMAGE_CACHE=$CAIP_CACHE/image
TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-$PROJECT/target}")
BUILD_DIR=$(realpath -m "${IMAGE_BUILD_DIR:-$TARGET_DIR}") # cargo's, which other clones may share
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p;T;q' "$PROJECT/Cargo.toml")
TAG=v$VERSION # what the chart, the manifests and the documents pull
ARCHIVE=caip-openstack-$VERSION.oci.tar

# The names of a platform in Rust and in GNU.
rust_target() { # ARCHITECTURE
  case $1 in
    amd64) echo x86_64-unknown-linux-gnu ;;
    arm64) echo aarch64-unknown-linux-gnu ;;
    *) die "IMAGE_PLATFORMS: linux/amd64 and linux/arm64 are known, not linux/$1" ;;
  esac
}
gnu_triplet() {
  local target
  target=$(rust_target "$1")
  echo "${target/-unknown/}"
}

this_architecture() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) die "images are built on x86_64 and aarch64, not on $(uname -m)" ;;
  esac
}

# Whether the compiler has the standard library of a platform.
has_std() { # RUSTC TARGET
  compgen -G "$("$1" --print target-libdir --target "$2")/libstd-*.rlib" >/dev/null
}

# The commit and its time, which the caller sets where there is no git.
COMMIT=${CAIP_OPENSTACK_COMMIT:-}
if [ -z "$COMMIT" ]; then
  COMMIT=$(git -C "$PROJECT" rev-parse HEAD) ||
    die "the commit is not known: build in a git clone, or set CAIP_OPENSTACK_COMMIT and SOURCE_DATE_EPOCH"
  [ -z "$(git -C "$PROJECT" status --porcelain)" ] || COMMIT+=-dirty
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$PROJECT" log -1 --format=%ct)} ||
  die "the time of the commit is not known: set SOURCE_DATE_EPOCH to it, in seconds"
[[ $SOURCE_DATE_EPOCH =~ ^[0-9]+$ ]] || die "SOURCE_DATE_EPOCH must be seconds since 1970, not '$SOURCE_DATE_EPOCH'"
[[ $COMMIT =~ ^[0-9a-f]{7,64}(-dirty)?$ ]] || die "CAIP_OPENSTACK_COMMIT must be a commit's hash, not '$COMMIT'"
# Of fixed length, unlike git's short form.
SHORT_COMMIT=$(sed -E 's/^([0-9a-f]{12})[0-9a-f]*/\1/' <<<"$COMMIT")
export SOURCE_DATE_EPOCH CAIP_OPENSTACK_COMMIT=$COMMIT
