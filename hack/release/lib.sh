# shellcheck shell=bash disable=SC2034 # what is set here is used where it is sourced
# What the scripts of this folder share. Sourced, never run.
#   RELEASE_SOURCE, RELEASE_REGISTRY   see owner.env
#   RELEASE_KEY                        a private key of cosign, with its .pub beside it. Without it, signatures are keyless:
#                                      cosign gets a certificate for the identity of the workflow or of the user
# shellcheck source=../image/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../image/lib.sh"
# shellcheck source=../go-tool.sh
. "$PROJECT/hack/go-tool.sh"
# shellcheck source=owner.env
. "$PROJECT/hack/release/owner.env"

if [ -n "${GITHUB_REPOSITORY:-}" ]; then
  RELEASE_SOURCE=${RELEASE_SOURCE:-$GITHUB_SERVER_URL/$GITHUB_REPOSITORY}
  RELEASE_REGISTRY=${RELEASE_REGISTRY:-ghcr.io/${GITHUB_REPOSITORY_OWNER,,}}
fi
IMAGE_NAME=$RELEASE_REGISTRY/caip-openstack
CHART_NAME=$RELEASE_REGISTRY/charts/caip-openstack

require_owner() {
  [ -n "$RELEASE_SOURCE" ] || die "RELEASE_SOURCE is empty: set it in hack/release/owner.env"
  [ -n "$RELEASE_REGISTRY" ] || die "RELEASE_REGISTRY is empty: set it in hack/release/owner.env"
}

# The digest of the image of all platforms, in its archive.
archive_digest() { # DIST
  tar -xOf "$1/$ARCHIVE" index.json | python3 -c 'import json, sys; print(json.load(sys.stdin)["manifests"][0]["digest"])'
}

# The image of one platform, among those of all platforms.
platform_image() { # IMAGE@DIGEST PLATFORM
  local digest
  digest=$(crane digest --platform "$2" "$1") || die "$1 has no image for $2"
  echo "${1%@*}@$digest"
}

# The SBOMs of a release, as lines of "PLATFORM FILE".
sboms() { # DIST
  local file platform
  for file in "$1/caip-openstack-$VERSION"-linux-*.cdx.json; do
    platform=${file##*"$VERSION-"}
    platform=${platform%.cdx.json}
    echo "${platform/-//} $file"
  done
}

# The identity that a signature must have.
if [ -n "${RELEASE_KEY:-}" ]; then
  # With a key nothing outside is asked: neither the transparency log nor the list of Sigstore's services.
  SIGNER=(--key "$RELEASE_KEY" --use-signing-config=false --tlog-upload=false)
  SIGNED_BY=(--key "${RELEASE_KEY%.key}.pub" --insecure-ignore-tlog)
else
  SIGNER=()
  SIGNED_BY=(
    --certificate-identity "${RELEASE_IDENTITY:-$RELEASE_SOURCE/.github/workflows/release.yaml@refs/tags/$TAG}"
    --certificate-oidc-issuer "${RELEASE_ISSUER:-https://token.actions.githubusercontent.com}"
  )
fi

# --- a registry on loopback, for tests ------------------------------------------
REGISTRY=$ENV_DIR/registry.pid
start_registry() { # on loopback, at the first part of RELEASE_REGISTRY
  require_port "$REGISTRY" "$CAIP_PORT_BASE" "a registry"
  start "$REGISTRY" "$ENV_DIR/registry.log" "$BIN/crane" registry serve --address "${RELEASE_REGISTRY%%/*}"
  wait_for 20 "the registry" "$ENV_DIR/registry.log" "$REGISTRY" curl -fsS "http://${RELEASE_REGISTRY%%/*}/v2/"
}

emulator() { # ARCHITECTURE
  [ "$1" != "$(this_architecture)" ] || return 0
  local machine
  machine=$(rust_target "$1")
  echo "qemu-${machine%%-*}-static"
}

run_image() { # IMAGE PLATFORM: pulls it into the caller's folder WORK, and executes it there
  local program=$WORK/program revision said with
  with=$(emulator "${2#*/}")
  [ -z "$with" ] || have "$with" || "$PROJECT/hack/env/install.sh" qemu-user-static
  crane export --platform "$2" "$1" - | tar -xO caip-openstack >"$program"
  chmod +x "$program"
  revision=$(crane config --platform "$2" "$1" |
    sed -nE 's/.*"org\.opencontainers\.image\.revision":"([0-9a-f]{7,12})[0-9a-f]*(-dirty)?".*/\1\2/p')
  said=$(env -i ${with:+"$(command -v "$with")"} "$program" --version)
  [ "$said" = "caip-openstack $VERSION ($revision)" ] || die "$1 ($2) says '$said'"
  say "pulled and run: $1 ($2): $said"
}
