#!/bin/bash
# Everything that continuous integration runs, installing what is missing first (not with
# --no-install). Ends with the line `N passed, N failed`; exit code 1 if anything failed. Further
# options go to scripts/check.py; --help lists them.
set -euo pipefail
. "$(dirname "$0")/common.sh"

if [ "${1:-}" = --no-install ]; then shift; else scripts/install_deps.sh check; fi
exec "$(find_python)" scripts/check.py "$@"
