#!/bin/bash
# The demonstration: installs what is missing, builds, and runs a real network with and without the
# library. Options after --no-install go to scripts/demo.py; --help lists them.
set -euo pipefail
. "$(dirname "$0")/common.sh"

if [ "${1:-}" = --no-install ]; then shift; else scripts/install_deps.sh demo; fi
make -j"$(nproc)" lib >&2
exec "$(find_python)" scripts/demo.py "$@"
