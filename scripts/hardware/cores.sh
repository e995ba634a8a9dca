#!/usr/bin/env bash
# Allocators over processor cores, in at most 300 seconds: scripts/hardware/cores.sh [--seconds N] [FOLDER]
# More options: --help. Needs Python with torch, and what scripts/hardware/prepare.sh lays together.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
export CUDA_VISIBLE_DEVICES= PYTHONDONTWRITEBYTECODE=1
exec "$(find_python)" scripts/hardware/cores.py "$@"
