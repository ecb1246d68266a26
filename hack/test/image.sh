#!/usr/bin/env bash
# A track of `make test`: builds and checks the image, in the time that the scenarios leave.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

yield_the_processor
await programs
stage_beside "build the image" image_test --build
reached image
