# The Go programs that check and make releases, from the modules that programs/go.mod pins. Sourced.
# shellcheck shell=bash
# shellcheck source=env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/env/lib.sh"
PATH=$BIN:$PATH

# need_go_tool NAME...: actionlint, cosign, crane. Go keeps what it had compiled, so the second time is fast.
need_go_tool() {
  local name package
  mkdir -p "$BIN"
  for name; do
    # Not by `go list`, which would download the modules of all tools.
    package=$(sed -n "s|^\t\([^ ]*/$name\)\$|\1|p" "$HERE/../programs/go.mod")
    [ -n "$package" ] || die "hack/programs/go.mod has no tool $name"
    # Another checkout may be running the one that is there.
    (
      lock 9 "$CAIP_CACHE/lock-programs" "builds programs"
      GOFLAGS=-mod=readonly CGO_ENABLED=0 \
        go -C "$HERE/../programs" build -buildvcs=false -ldflags '-s -w' -o "$BIN/$name.tmp" "$package"
      mv "$BIN/$name.tmp" "$BIN/$name"
    )
  done
}
