#!/bin/bash
# Measures planned GPU memory on this machine's GPU, in under seven minutes: see gpu.py, whose options
# it takes. Needs torch with CUDA in `python3`, and build/libmemomalloc-cuda.so (`make cuda`).
set -euo pipefail
cd "$(dirname "$0")/../.."
export PYTHONUNBUFFERED=1
exec python3 scripts/hardware/gpu.py "$@"
