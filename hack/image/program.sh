#!/usr/bin/env bash
# Builds one of our programs: static, and reproducible in every folder:
#   program.sh ARCHITECTURE FILE [NAME]      amd64 or arm64; caip-openstack or kubectl-fippool
# Prints what else is linked into it, for the SBOM: lines of "TYPE NAME VERSION ARCHITECTURE".
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# = 2 ] || [ $# = 3 ] || die "usage: program.sh ARCHITECTURE FILE [NAME]"
TARGET=$(rust_target "$1")
TRIPLET=$(gnu_triplet "$1")
FILE=$(realpath -m "$2")
NAME=${3:-caip-openstack}

# Without rustup's standard library of the other architecture, Debian's is used, together with Debian's compiler: a
# standard library works only with the compiler that built it.
debian_rust() { # ARCHITECTURE
  local folder=$IMAGE_CACHE/rust-$1 new=$IMAGE_CACHE/rust-$1.new version std llvm
  rm -rf "$new"
  version=$("$ROOM/debian.sh" "$new" rustc-web | cut -d' ' -f2) ||
    die "Rust has no library for $TARGET here; with rustup: rustup target add $TARGET"
  if [ "$(cat "$folder/version" 2>/dev/null)" != "$version" ]; then
    say "image: unpacking Debian's Rust $version for $1 (only once)"
    std=libstd-rust-web-$(cut -d. -f1,2 <<<"$version")
    "$ROOM/debian.sh" "$new" libstd-rust-web-dev "libstd-rust-web-dev:$1" "$std" >/dev/null
    llvm=$(dpkg-deb -f "$IMAGE_CACHE/apt/debs/${std}_${version}_"*.deb Depends | grep -o 'libllvm[0-9]*')
    "$ROOM/debian.sh" "$new" "$llvm" >/dev/null
    echo "$version" >"$new/version"
    rm -rf "$folder" && mv "$new" "$folder"
  fi
  rm -rf "$new"
  RUSTC=$folder/usr/bin/rustc
  LD_LIBRARY_PATH=$folder/usr/lib/$(gcc -print-multiarch)
  export LD_LIBRARY_PATH
}

# The program must not contain paths of this machine. Cargo compiles the project's own files by relative paths, and its
# folder has one folder for each registry. Without the project's path, clones that share IMAGE_BUILD_DIR share the
# compiled dependencies.
remapped() {
  local home=${CARGO_HOME:-$HOME/.cargo} sysroot folder commit
  sysroot=$("$RUSTC" --print sysroot)
  commit=$("$RUSTC" -vV | sed -n 's/^commit-hash: //p')
  echo "$BUILD_DIR=/target"
  # The standard library's own name for its sources.
  echo "$sysroot/lib/rustlib/src/rust=/rustc/$commit"
  for folder in "$(realpath "$home")"/registry/src/*/; do printf '%s\n' "${folder%/}=/cargo"; done
}

library() { # FILE: the Debian package of a static library
  local path
  path=$(realpath "$("$GCC" -print-file-name="$1")")
  # shellcheck disable=SC2016 # dpkg's variables
  dpkg-query -W -f='deb ${Package} ${Version} ${Architecture}\n' "$(dpkg-query -S "$path" | cut -d: -f1)" 2>/dev/null | head -n 1
}

cd "$PROJECT"
require_cargo
RUSTC=$(rustup which rustc 2>/dev/null || command -v rustc) || die "rustc is needed, and is not in PATH"
cargo fetch --locked -q --target "$TARGET"
has_std "$RUSTC" "$TARGET" || debian_rust "$1"
GCC=gcc
[ "$1" = "$(this_architecture)" ] || GCC=$TRIPLET-gcc
have "$GCC" || "$ROOM/../env/install.sh" "gcc-${TRIPLET//_/-}" "libc6-dev-$1-cross"

flags=(-C target-feature=+crt-static)
c_flags=
while read -r pair; do
  flags+=("--remap-path-prefix=$pair")
  c_flags+=" -ffile-prefix-map=$pair"
done < <(remapped)
variable=${TARGET//-/_}
# The user's flags would change the program.
unset RUSTFLAGS
env CARGO_ENCODED_RUSTFLAGS="$(IFS=$'\x1f'; echo "${flags[*]}")" RUSTC="$RUSTC" CAIP_OPENSTACK_COMMIT="$SHORT_COMMIT" \
  CARGO_TARGET_DIR="$BUILD_DIR" "CC_$variable=$GCC" "CFLAGS_$variable=$c_flags" "CARGO_TARGET_${variable^^}_LINKER=$GCC" \
  cargo build --locked --release --bin "$NAME" --target "$TARGET" >&2
install -D -m 755 "$BUILD_DIR/$TARGET/release/$NAME" "$FILE"

echo "generic rust $("$RUSTC" -V | cut -d' ' -f2) $1"
library libc.a
library libgcc_eh.a
