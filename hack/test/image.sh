#!/usr/bin/env bash
# A track of `make test`: builds and checks the image, in the time that the scenarios leave.
# shellcheck disable=SC2031 # a subshell reads CAIP_CACHE too
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# The dependencies are compiled once for all clones. A folder that no test used for a week goes.
build_image() {
  IMAGE_BUILD_DIR=$CAIP_CACHE/image/target-$(cat Cargo.lock <(rustc -vV) | sha256sum | cut -c1-10)
  export IMAGE_BUILD_DIR
  mkdir -p "$IMAGE_BUILD_DIR"
  touch "$IMAGE_BUILD_DIR"
  find "$CAIP_CACHE/image" -maxdepth 1 -name 'target-*' -mtime +7 -exec rm -rf {} +
  image_test --build
}

yield_the_processor
await programs
stage_beside "build the image" build_image
reached image
