#!/usr/bin/env bash
# Writes the manifests and the chart of a release:
#   FOLDER/ipam-openstack/VERSION/   ipam-components.yaml and metadata.yaml: a local repository for clusterctl
#   FOLDER/caip-openstack.yaml       the same without variables, for kubectl
#   FOLDER/caip-openstack-X.Y.Z.tgz  the chart
#   manifests.sh FOLDER [IMAGE]      IMAGE is caip-openstack:VERSION by default
#   IMAGE_SOURCE                     the URL of the sources, for the chart's `home` and `sources` (default: neither)
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "error: $*" >&2; exit 1; }
(($# == 1 || $# == 2)) || die "usage: manifests.sh FOLDER [IMAGE]"
version=v$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
image=${2:-caip-openstack:$version}
[[ $image =~ ^[a-zA-Z0-9./:@_-]+$ ]] || die "the image must be a reference such as registry.example.com/caip-openstack:$version, not '$image'"
# clusterctl accepts only references with a registry.
[[ $image == */* ]] || image=localhost/$image
# kustomize is a part of kubectl, which `make tools` builds.
kubectl=$(command -v kubectl) || kubectl=$(bash -c '. hack/env/lib.sh; echo "$BIN/kubectl"')
[ -x "$kubectl" ] || die "kubectl is needed, and is not in PATH; make tools builds it"

components=$1/ipam-openstack/$version
mkdir -p "$components"
write() { # OVERLAY FILE
  "$kubectl" kustomize "config/$1" | sed "s|image: caip-openstack:dev\$|image: $image|" >"$2.tmp"
  grep -qF "image: $image" "$2.tmp" || die "config/$1 has no image caip-openstack:dev to replace"
  mv "$2.tmp" "$2"
}
write clusterctl "$components/ipam-components.yaml"
write default "$1/caip-openstack.yaml"
cp config/clusterctl/metadata.yaml "$components/metadata.yaml"

# The chart as `helm package` packs it, but the same bytes each time, and for the image of the manifests.
values() {
  local name=${image%@*} registry='' digest='' tag=''
  [[ $image != *@* ]] || digest=${image#*@}
  if [[ ${name##*/} == *:* ]]; then tag=${name##*:} name=${name%:*}; fi
  [ "$tag" != "$version" ] || tag=
  # As in Docker: the first part is a registry if it can be a host name.
  [[ ! ${name%%/*} =~ [.:]|^localhost$ ]] || { registry=${name%%/*} && name=${name#*/}; }
  sed "/^image:/,/^[^ ]*imagePullSecrets/ {
    s|^  registry: .*|  registry: \"$registry\"|
    s|^  repository: .*|  repository: $name|
    s|^  tag: .*|  tag: \"$tag\"|
    s|^  digest: .*|  digest: \"$digest\"|
  }" config/chart/values.yaml
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chart=$work/caip-openstack
cp -R config/chart "$chart"
rm "$chart/.helmignore"
values >"$chart/values.yaml"
awk -f hack/chart-values.awk "$chart/values.yaml" config/chart/README.md >"$chart/README.md"
[ -z "${IMAGE_SOURCE:-}" ] || printf 'home: "%s"\nsources: ["%s"]\n' "$IMAGE_SOURCE" "$IMAGE_SOURCE" >>"$chart/Chart.yaml"
tar -C "$work" --sort=name --mtime="@${SOURCE_DATE_EPOCH:-0}" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
  --format=ustar -c caip-openstack | gzip -n >"$1/caip-openstack-${version#v}.tgz"
