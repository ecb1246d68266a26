#!/usr/bin/env bash
# Builds programs from the Go modules that programs/go.mod pins, into $CAIP_CACHE/bin.
#   build-programs.sh NAME...      of: etcd kube-apiserver kube-controller-manager kubectl capi-core clusterctl helm,
#                                  and etcdutl, from etcdutl/go.mod, since it needs other modules than the rest,
#                                  and capi-core-v1beta1 and clusterctl-v1beta1, from the older Cluster API of
#                                  cluster-api-v1beta1/go.mod
#                                  and capi-operator, from cluster-api-operator/go.mod
#                                  and NAME@VERSION: another version of capi-core, clusterctl, kube-apiserver or
#                                  kube-controller-manager, with the modules that its own go.mod asks for
# Safe to interrupt: a program is moved into place when it is whole, and Go keeps what it had compiled.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

KUBERNETES=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' "$HERE/programs/go.mod")
# Without these the programs call themselves v0.0.0, which Cluster API refuses.
V=k8s.io/component-base/version
ldflags() { # NAME
  local version=$KUBERNETES minor package
  [[ $1 != kube*@* ]] || version=${1#*@}
  minor=$(cut -d. -f2 <<<"$version")
  echo "-s -w -X $V.gitVersion=$version -X $V.gitMajor=1 -X $V.gitMinor=$minor -X $V.gitTreeState=clean"
  # As Helm's own Makefile does: otherwise `helm template` renders for Kubernetes 1.20.
  for package in pkg/chartutil pkg/lint/rules; do
    echo "-X helm.sh/helm/v3/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/$package.k8sVersionMinor=$minor"
  done
}
export GOFLAGS=-mod=readonly CGO_ENABLED=0

package() { # NAME, with a version or without
  case ${1%@*} in
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    etcdutl) echo go.etcd.io/etcd/etcdutl/v3 ;;
    kube-apiserver | kube-controller-manager | kubectl) echo "k8s.io/kubernetes/cmd/${1%@*}" ;;
    capi-core) if is_since_1_14 "$1"; then echo sigs.k8s.io/cluster-api/core; else echo sigs.k8s.io/cluster-api; fi ;;
    capi-core-v1beta1) echo sigs.k8s.io/cluster-api ;;
    capi-operator) echo sigs.k8s.io/cluster-api-operator/cmd ;;
    clusterctl | clusterctl-v1beta1) echo sigs.k8s.io/cluster-api/cmd/clusterctl ;;
    helm) echo helm.sh/helm/v3/cmd/helm ;;
    *) die "no such program: $1" ;;
  esac
}

# Since Cluster API 1.14, the core manager is a package of its own, and the types are a module of their own.
is_since_1_14() { [[ $1 != *@* ]] || (($(cut -d. -f2 <<<"${1#*@}") >= 14)); } # NAME

# Kubernetes' own modules have the version v0.0.0 in its go.mod, and are replaced by folders of its repository.
replace_staging() { # VERSION
  local file module
  file=$(go mod download -json "k8s.io/kubernetes@$1" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
  awk '$2 == "=>" && $3 ~ /^\.\/staging/ { print $1 }' "$file" | while read -r module; do
    go mod edit -replace "$module=$module@v0.${1#v1.}"
  done
}

# The types of Cluster API are replaced by a folder of its repository in the same way.
replace_api() { go mod edit -replace "sigs.k8s.io/cluster-api/api=sigs.k8s.io/cluster-api/api@$1"; } # VERSION

# Writes a go.mod for another version; prints its folder.
versioned() { # NAME@VERSION
  local folder=$CAIP_CACHE/src/versions/$1 log=$CAIP_CACHE/log/versions-$1.log
  if [ ! -d "$folder" ]; then
    rm -rf "$folder.tmp" && mkdir -p "$folder.tmp"
    (
      # Bash ignores `set -e` on the left of ||.
      cd "$folder.tmp" && export GOFLAGS=-mod=mod &&
        go mod init caip-openstack/hack/env/versions &&
        { [[ $1 != kube* ]] || replace_staging "${1#*@}"; } &&
        { [[ $1 == kube* ]] || ! is_since_1_14 "$1" || replace_api "${1#*@}"; } &&
        go get -tool "$(package "$1")@${1#*@}" &&
        go mod tidy
    ) >"$log" 2>&1 || { tail -n 5 "$log" >&2; die "the modules of $1 were not found; see $log"; }
    mv "$folder.tmp" "$folder"
  fi
  echo "$folder"
}

# The folder with the go.mod that pins a program.
pins() { # NAME
  case $1 in
    *@*) versioned "$1" ;;
    etcdutl) echo "$HERE/etcdutl" ;;
    *-v1beta1) echo "$HERE/cluster-api-v1beta1" ;;
    capi-operator) echo "$HERE/cluster-api-operator" ;;
    *) echo "$HERE/programs" ;;
  esac
}
# Everything that decides what a program becomes.
recipe() { # NAME
  { cat "$(pins "$1")/go.mod" "$(pins "$1")/go.sum" && declare -f package capi_source build_folder && ldflags "$1"; } |
    sha256sum | cut -c1-16
}
is_current() { [ -x "$BIN/$1" ] && [ "$(cat "$BIN/.$1" 2>/dev/null)" = "$(recipe "$1")" ]; }

# The source of Cluster API or of its operator, with two uses: its config/ folder has the CRDs and webhooks, and the
# manager is built from here, because its webhook server listens on every interface and has no flag for that: one line
# makes it listen on loopback.
capi_source() { # NAME
  local module=sigs.k8s.io/cluster-api version source main from
  [[ $1 != capi-operator ]] || module+=-operator
  version=$(module_version "$(pins "$1")" $module)
  source=$CAIP_CACHE/src/${module##*/}-$version
  if [ ! -d "$source" ]; then
    from=$(go -C "$(pins "$1")" mod download -json "$module@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    [ -n "$from" ] || die "$module@$version cannot be downloaded"
    rm -rf "$source.tmp" && mkdir -p "$CAIP_CACHE/src"
    cp -r "$from" "$source.tmp" && chmod -R u+w "$source.tmp"
    for main in core/main.go cmd/main.go main.go; do [ ! -f "$source.tmp/$main" ] || break; done
    sed -i 's|^\(\t*\)Port: *webhookPort,|\1Host: "127.0.0.1",\n&|' "$source.tmp/$main"
    grep -q 'Host: "127.0.0.1",' "$source.tmp/$main" || die "${module##*/} $version sets up its webhook server in another way: see capi_source in $0"
    mv "$source.tmp" "$source"
  fi
  echo "$source"
}

# Where the build's go.mod is: a copy, since a build takes minutes and the repository may be switched
# to another branch meanwhile.
build_folder() { # NAME
  local folder=$CAIP_CACHE/src/programs source
  [[ $1 != capi-* && $1 != *-v1beta1 && $1 != etcdutl && $1 != *@* ]] || folder=$CAIP_CACHE/src/$1
  mkdir -p "$folder" && cp "$(pins "$1")/go.mod" "$(pins "$1")/go.sum" "$folder" || return
  if [[ $1 == capi-* ]]; then
    source=$(capi_source "$1") || return
    go -C "$folder" mod edit -replace "$(go -C "$source" list -m)=$source" || return
  fi
  echo "$folder"
}

etcd_version() { grep -o 'go.etcd.io/etcd/server/v3 v[^ ]*' "$1/go.mod"; } # FOLDER
[ "$(etcd_version "$HERE/etcdutl")" = "$(etcd_version "$HERE/programs")" ] ||
  die "etcdutl/go.mod and programs/go.mod name different versions of etcd"

build() { # NAME LABEL
  local name=$1 log=$CAIP_CACHE/log/build-$1.log folder recipe
  say "programs: building $name ($2)"
  recipe=$(recipe "$name")
  folder=$(build_folder "$name") || die "the build of $name could not be prepared"
  go -C "$folder" build -v -buildvcs=false -o "$BIN/$name.tmp" -ldflags "$(ldflags "$name" | tr '\n' ' ')" "$(package "$name")" >"$log" 2>&1 &
  if ! await_compiler $! "programs:   $name" packages_done "$log"; then
    grep -v '^[a-z0-9.]*/[^ ]*$' "$log" | tail -n 8 >&2 || true
    die "the build of $name failed; its output is $log"
  fi
  mv "$BIN/$name.tmp" "$BIN/$name"
  echo "$recipe" >"$BIN/.$name"
}
packages_done() { echo "$(grep -c / "$1" || true) packages"; } # LOG

mkdir -p "$BIN" "$CAIP_CACHE/log"
lock 9 "$CAIP_CACHE/lock-programs" "builds programs"
todo=()
for name in "$@"; do is_current "$name" || todo+=("$name"); done
for i in "${!todo[@]}"; do build "${todo[$i]}" "$((i + 1)) of ${#todo[@]}"; done
