#!/bin/bash
# Measures planned GPU memory on this machine's GPU, in under seven minutes: see --help.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
export PYTHONUNBUFFERED=1
exec "$(find_python)" scripts/hardware/gpu.py "$@"
