#!/usr/bin/env bash
# A track of `make test`: builds and checks the image, in the time that the scenarios leave.
# shellcheck disable=SC2031 # a subshell reads CAIP_CACHE too
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

build_image() {
  IMAGE_BUILD_DIR=$(image_build_dir)
  export IMAGE_BUILD_DIR
  image_test --build
}

yield_the_processor
await programs
stage_beside "build the image" build_image
reached image
