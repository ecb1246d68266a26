#!/usr/bin/env bash
# Builds the image, without a daemon and without root: `make image`.
#   build.sh [FOLDER]    writes into it (default target/image): one archive (an OCI layout) with the image of all
#                        platforms, and an SBOM for each platform
#   IMAGE_PLATFORMS      default this machine's; "linux/amd64 linux/arm64"
#   IMAGE_SOURCE         the URL of the sources, for the label of that name (default: no label)
#   CAIP_OPENSTACK_COMMIT, SOURCE_DATE_EPOCH       the commit and its time, where there is no git
#   IMAGE_BUILD_DIR      cargo's folder (default target/); clones that share one compile the dependencies once
#   CA_CERTIFICATES      the version of Debian's package (default: the newest), to rebuild an old image
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -le 1 ] || die "usage: build.sh [FOLDER]"
OUT=$(realpath -m "${1:-$TARGET_DIR/image}")
read -ra PLATFORMS <<<"${IMAGE_PLATFORMS:-linux/$(this_architecture)}"
WORK=$IMAGE_CACHE/work
lock 8 "$IMAGE_CACHE/lock" "builds an image"
trap 'rm -rf "$WORK"' EXIT
rm -rf "$WORK" # left by a killed run
mkdir -p "$WORK" "$OUT"

buildah() {
  # A private, temporary store that copies (vfs) also works inside a container.
  BUILDAH_ISOLATION=chroot command buildah --storage-driver vfs --root "$WORK/store" --runroot "$WORK/run" "$@"
}

# Only Debian's CAs: the bundle of this machine may contain additional ones.
ca_certificates() { # FILE
  "$ROOM/debian.sh" "$WORK/ca" "ca-certificates${CA_CERTIFICATES:+=$CA_CERTIFICATES}" >"$WORK/ca.version"
  (export LC_ALL=C && cat "$WORK"/ca/usr/share/ca-certificates/mozilla/*.crt) >"$1"
}

licenses() { # TARGET
  local kind package copyright texts=()
  while read -r kind package _; do
    [ "$kind" = deb ] || continue
    copyright=usr/share/doc/$package/copyright
    if [ -e "$WORK/ca/$copyright" ]; then texts+=("$WORK/ca/$copyright"); else texts+=("/$copyright"); fi
  done <"$WORK/others"
  (cd "$PROJECT" && cargo metadata --locked --format-version 1 --filter-platform "$1") >"$WORK/metadata"
  python3 -B "$ROOM/licenses.py" "$WORK/metadata" "$WORK/crates" "${texts[@]}"
}

# Creates every file of the image.
fill() { # ARCHITECTURE FOLDER
  local root=$2 target
  target=$(rust_target "$1")
  mkdir -p "$root"/etc/ssl/certs "$root"/usr/share/{sbom,doc/caip-openstack}
  "$ROOM/program.sh" "$1" "$root/caip-openstack" >"$WORK/others"
  ca_certificates "$root/etc/ssl/certs/ca-certificates.crt"
  sed 's/^/deb /' "$WORK/ca.version" >>"$WORK/others"
  "$ROOM/sbom.sh" "$target" "$WORK/crates" <"$WORK/others" >"$root/usr/share/sbom/caip-openstack.cdx.json"
  licenses "$target" >"$root/usr/share/doc/caip-openstack/THIRD-PARTY-LICENSES"
  cp "$PROJECT/LICENSE" "$root/usr/share/doc/caip-openstack/"
  echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$root/etc/passwd"
  echo 'nonroot:x:65532:' >"$root/etc/group"
  # Only these parts of glibc's name lookup are linked into the program.
  printf '%s: files\n' passwd group >"$root/etc/nsswitch.conf"
  echo 'hosts: files dns' >>"$root/etc/nsswitch.conf"
  chmod -R u=rwX,go=rX "$root"
  chmod 755 "$root/caip-openstack"
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

labels() {
  local created pair
  created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
  for pair in title=caip-openstack "description=Cluster API IPAM provider for OpenStack floating IPs" licenses=Apache-2.0 \
    "version=$VERSION" "revision=$COMMIT" "created=$created" ${IMAGE_SOURCE:+"source=$IMAGE_SOURCE"}; do
    printf -- '--label\norg.opencontainers.image.%s\n--annotation\norg.opencontainers.image.%s\n' "$pair" "$pair"
  done
}

image() { # PLATFORM
  local context=$WORK/${1/\//-} architecture=${1#linux/} sbom
  rust_target "$architecture" >/dev/null
  mapfile -t options < <(labels)
  fill "$architecture" "$context/rootfs"
  buildah build -q --format oci --platform "$1" --timestamp "$SOURCE_DATE_EPOCH" --identity-label=false "${options[@]}" \
    --manifest caip-openstack --file "$ROOM/Containerfile" "$context" >"$WORK/log" 2>&1 ||
    { cat "$WORK/log" >&2; die "buildah cannot build the image of $1"; }
  sbom=$OUT/caip-openstack-$VERSION-${1/\//-}.cdx.json
  install -m 644 "$context/rootfs/usr/share/sbom/caip-openstack.cdx.json" "$sbom"
}

# buildah's own archive contains the time of the build; this one depends only on the image.
archive() {
  buildah manifest push -q --all caip-openstack "oci:$WORK/layout:$TAG" >"$WORK/log" 2>&1 ||
    { cat "$WORK/log" >&2; die "buildah cannot write the image"; }
  tar -C "$WORK/layout" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
    --format=ustar -cf "$WORK/$ARCHIVE" blobs index.json oci-layout
  mv "$WORK/$ARCHIVE" "$OUT/$ARCHIVE"
}

have python3 || die "python3 is needed: it writes the SBOM"
type -P buildah >/dev/null || "$ROOM/../env/install.sh" buildah
for platform in "${PLATFORMS[@]}"; do image "$platform"; done
archive
say "image $TAG ($COMMIT) for ${PLATFORMS[*]}: $OUT/$ARCHIVE"
say "digest $(tar -xOf "$OUT/$ARCHIVE" index.json | python3 -c 'import json, sys; print(json.load(sys.stdin)["manifests"][0]["digest"])')"
