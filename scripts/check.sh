#!/bin/bash
# Everything that continuous integration runs, installing what is missing first (not with
# --no-install, which must come first and also allows any test to be skipped). Ends with the line
# `N passed, N failed, N skipped`; exit code 1 if anything failed. Options go to scripts/gates/check.py.
set -euo pipefail
. "$(dirname "$0")/common.sh"

[ "${1:-}" = --no-install ] || scripts/install_deps.sh check
exec "$(find_python)" scripts/gates/check.py "$@"
