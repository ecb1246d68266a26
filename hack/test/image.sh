#!/usr/bin/env bash
# A track of `make test`: builds the image and installs it as the documents say, in the time that the scenarios leave.
# shellcheck disable=SC2031 # a subshell reads CAIP_CACHE too
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

yield_the_processor 15
await programs
IMAGE_BUILD_DIR=$(image_build_dir)
export IMAGE_BUILD_DIR
stage_beside "build the image" image_test --build
reached image
# The scenarios before keep both cores busy, or measure times.
await hostile-tenants
stage_beside "the documented installations" of_this_commit with_cluster_for_installs hack/test/installs.sh
