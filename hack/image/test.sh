#!/usr/bin/env bash
# Builds the image and checks it, unpacked and running as a container runtime would run it: `make image-test`.
#   test.sh [--build|--built]   --build only builds it, --built only checks what --build has built
# The checks need a management cluster by KUBECONFIG, whose API server is on loopback: hack/env/management.sh.
#   IMAGE_PLATFORMS      default this machine's; other platforms run in an emulator
set -euo pipefail
# Sources without git can be tested too.
git -C "$(dirname "$0")" rev-parse -q --verify HEAD >/dev/null 2>&1 ||
  export CAIP_OPENSTACK_COMMIT=${CAIP_OPENSTACK_COMMIT:-0000000} SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1000000000}
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[[ $# = 0 || "$*" =~ ^--(build|built)$ ]] || die "usage: test.sh [--build|--built]"
[ "${1:-}" != --build ] || exec "$ROOM/build.sh"
[ -r "${KUBECONFIG:-}" ] || die "KUBECONFIG must name a management cluster: hack/env/management.sh starts one, hack/env/env.sh names it"
read -ra PLATFORMS <<<"${IMAGE_PLATFORMS:-linux/$(this_architecture)}"
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
NAME=cloud.caip.test

needed() {
  type -P skopeo >/dev/null || echo skopeo
  have bwrap || echo bubblewrap
  have readelf || echo binutils
  have pgrep || echo procps
  [ "${PLATFORMS[*]}" = "linux/$(this_architecture)" ] || compgen -G "/usr/bin/qemu-*-static" >/dev/null || echo qemu-user-static
}

# The mount points of a container runtime: devices (a static program reads /dev/urandom), names, and a pod's credentials.
mount_points() {
  mkdir -p "$ROOT/etc" "$ROOT/dev" && touch "$ROOT/etc/hosts" "$ROOT/etc/resolv.conf" "$ROOT/kubeconfig"
  echo '127.0.0.1 localhost' >"$WORK/hosts"
  echo 'nameserver 127.0.0.1' >"$WORK/resolv.conf"
  [ ${#EMULATOR[@]} = 0 ] || touch "$ROOT/emulator"
}

# As in the deployment: no root, capabilities, new privileges or writable folder; and no environment, as process 1.
contained() { # [MOUNT-OPTION...] -- ARGUMENT...
  local mounts=()
  while [ "$1" != -- ]; do mounts+=("$1") && shift; done
  shift
  CONTAINED=(
    bwrap --unshare-user --uid 65532 --gid 65532 --unshare-pid --as-pid-1 --unshare-ipc --unshare-uts --cap-drop ALL
    --new-session --die-with-parent --clearenv --ro-bind "$ROOT" / --dev /dev --ro-bind "$WORK/hosts" /etc/hosts
    --ro-bind "$WORK/resolv.conf" /etc/resolv.conf "${EMULATOR_MOUNT[@]}" "${mounts[@]}"
    "${EMULATOR[@]}" /caip-openstack "$@"
  )
}

emulator_for() { # ARCHITECTURE
  EMULATOR=() EMULATOR_MOUNT=()
  [ "$1" = "$(this_architecture)" ] && return
  local machine
  machine=$(rust_target "$1")
  EMULATOR=(/emulator) EMULATOR_MOUNT=(--ro-bind "/usr/bin/qemu-${machine%%-*}-static" /emulator)
}

check_program() {
  # Not through a pipe: readelf would fail when it ends early.
  local headers
  headers=$(readelf -ld "$ROOT/caip-openstack")
  ! grep -E 'INTERP|NEEDED' <<<"$headers" || die "the program is not static"
  local folder
  for folder in "$PROJECT" "$TARGET_DIR" "$BUILD_DIR" "${CARGO_HOME:-$HOME/.cargo}" "$HOME/.rustup"; do
    ! grep -aqF "$folder" "$ROOT/caip-openstack" || die "the program contains the path $folder of this machine"
  done
}

# By which a container runtime imports it.
check_tag() {
  local tag
  tag=$(tar -xOf "$TARGET_DIR/image/$ARCHIVE" index.json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"])')
  [ "$tag" = "$TAG" ] || die "the archive's tag is $tag, not $TAG"
}

check_answers() {
  contained -- --version
  local said
  said=$("${CONTAINED[@]}")
  [ "$said" = "caip-openstack $VERSION ($SHORT_COMMIT)" ] || die "--version says '$said'"
  contained -- --help
  said=$("${CONTAINED[@]}")
  grep -q -- --leader-elect <<<"$said" || die "--help does not name --leader-elect: $said"
}

# Reaches the API server by a name of /etc/hosts, with the kubeconfig's CA, and waits until the caches are filled.
check_readiness() {
  "$BIN/kubectl" apply --server-side --force-conflicts -f "$PROJECT/crds" >/dev/null
  "$BIN/kubectl" config view --raw --flatten | sed 's,server: https://127\.0\.0\.1:,server: https://localhost:,' >"$WORK/kubeconfig"
  grep -q 'server: https://localhost:' "$WORK/kubeconfig" || die "the API server of $KUBECONFIG is not at 127.0.0.1"
  contained --ro-bind "$WORK/kubeconfig" /kubeconfig -- --kubeconfig=/kubeconfig --namespace=caip-image-test \
    --leader-elect=false --diagnostics-address=0 --health-addr="127.0.0.1:$HEALTH_PORT"
  "${CONTAINED[@]}" 2>"$WORK/log" &
  local outer=$! deadline=$((SECONDS + 120)) page=
  until page=$(curl -fsS "http://127.0.0.1:$HEALTH_PORT/readyz" 2>/dev/null) && grep -qF "[+] caches" <<<"$page"; do
    if ! kill -0 $outer 2>/dev/null || ((SECONDS > deadline)); then
      cat "$WORK/log" >&2
      die "/readyz is not 200: $page"
    fi
    sleep .2
  done
  # As process 1 it ignores every signal that it does not handle.
  kill -TERM "$(pgrep -P $outer)"
  wait $outer || { cat "$WORK/log" >&2; die "the program ended with $? on SIGTERM"; }
}

# Reaches a server by DNS and HTTPS. With its CA added to the image's it is trusted, without it is not.
check_names_and_cas() {
  local certificate=$WORK/server.pem
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$NAME" -addext "subjectAltName=DNS:$NAME" \
    -addext basicConstraints=critical,CA:FALSE -keyout "$certificate" -out "$WORK/server.crt" 2>"$WORK/log" ||
    { cat "$WORK/log" >&2; die "openssl failed"; }
  cat "$WORK/server.crt" >>"$certificate"
  cat "$ROOT/etc/ssl/certs/ca-certificates.crt" "$WORK/server.crt" >"$WORK/cas.pem"
  printf '{"apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [],
    "clusters": [{"name": "x", "cluster": {"server": "https://%s"}}],
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": ""}}]}\n' "$NAME" >"$WORK/named"
  by_name request --ro-bind "$WORK/cas.pem" /etc/ssl/certs/ca-certificates.crt
  by_name unknown-ca
}

by_name() { # WANT [MOUNT-OPTION...]
  local want=$1
  shift
  contained --ro-bind "$WORK/named" /kubeconfig "$@" -- --kubeconfig=/kubeconfig --leader-elect=false \
    --diagnostics-address=0 --health-addr=0
  bwrap --unshare-user --uid 0 --gid 0 --unshare-net --cap-add CAP_NET_BIND_SERVICE --die-with-parent --dev-bind / / \
    python3 "$ROOM/named_server.py" "$NAME" "$WORK/server.pem" "$want" "${CONTAINED[@]}"
}

check_image() { # ARCHITECTURE
  local image=$WORK/$1.image
  ROOT=$WORK/$1.root
  skopeo copy -q --override-os linux --override-arch "$1" "oci-archive:$TARGET_DIR/image/$ARCHIVE" "dir:$image"
  python3 "$ROOM/check.py" "$image" "$ROOT" "$1" "$VERSION" "$COMMIT" "$SOURCE_DATE_EPOCH"
  check_tag
  emulator_for "$1"
  check_program
  mount_points
  check_answers
  check_readiness
  check_names_and_cas
  say "the image for linux/$1 is correct and works"
}

mapfile -t missing < <(needed)
[ ${#missing[@]} = 0 ] || "$ROOM/../env/install.sh" "${missing[@]}"
[ "${1:-}" = --built ] || "$ROOM/build.sh"
for platform in "${PLATFORMS[@]}"; do check_image "${platform#linux/}"; done
