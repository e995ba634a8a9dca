#!/bin/bash
# The demonstration: installs what is missing, builds, runs a real network with and without the library, and draws what
# came out. Options, of which these two come first; the others go to scripts/demo.py, and --help lists them:
#   --no-install   nothing is installed: without root, without a network, or on another distribution than Debian
#   --wheel FILE   nothing is built: the library of this wheel, installed into .venv
set -euo pipefail
. "$(dirname "$0")/common.sh"

install=yes wheel=
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install= ;;
    --wheel)
      [ -f "${2:-}" ] || die "--wheel needs the file of a wheel; \`make wheels\` builds them into dist"
      wheel=$2
      shift
      ;;
    *) break ;;
  esac
  shift
done

refuse_musl
[ -z "$install" ] || scripts/install_deps.sh demo
python=$(find_python)
if [ -n "$wheel" ]; then
  [ -x "$VENV/bin/python" ] || "$python" -m venv --system-site-packages "$VENV"
  python=$VENV/bin/python
  with_clock "installing $(basename "$wheel")" \
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
  set -- --library "$("$python" -c 'import memomalloc; print(memomalloc.library_path())')" "$@"
else
  build_with_progress lib
fi
exec "$python" scripts/demo.py "$@"
