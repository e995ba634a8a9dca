#!/bin/bash
# Installs what building (build), the demonstration (demo), the full check (check), the long runs (soak),
# another processor (cross), wheels (wheels) or other kernels (vm) need, on Debian 12 or a relative of it. Quick when all is there. Packages come by apt as root; without root it says
# which are missing. Python packages go into .venv, or the environment that MEMO_VENV names.
set -euo pipefail
. "$(dirname "$0")/common.sh"

# The torch that the figures of the README were measured with, and the torchvision made for it.
TORCH=2.13.0
TORCHVISION='0.28.*'
# Tests compare what its checker and its shape inference say.
ONNX=1.23.2

# python3 makes the man pages of `make install`.
packages_build="make g++ libxxhash-dev zlib1g-dev libcli11-dev nlohmann-json3-dev python3"
packages_python="python3-venv"
# What builds and judges; then what tests run beside or under the library, each of which would skip some test.
packages_check="git catch2 clang-format-19 clang-tidy-19 libbenchmark-dev coinor-libcbc-dev binutils
  clang-19 libclang-rt-19-dev valgrind
  sqlite3 libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0 stress-ng redis-server redis-tools
  libpython3.11-testsuite chromium pkg-config man-db libunwind8 cpio"
packages_wheels="binutils binutils-aarch64-linux-gnu"
packages_cross="g++-aarch64-linux-gnu"
packages_vm="qemu-system-x86 qemu-system-arm user-mode-linux"
packages_debian_torch="python3-torch python3-torchvision python3-numpy python3-pil"
packages_debian_check="python3-onnx python3-matplotlib mypy"

missing_of() {
  for package in "$@"; do
    status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || echo "$package"
  done
}

# While packages are installed no server is started: tests start their own, on ports of their own.
POLICY=/usr/sbin/policy-rc.d
deny_servers() {
  [ -e $POLICY ] && return 0
  printf '#!/bin/sh\nexit 101\n' >$POLICY
  chmod +x $POLICY
  trap 'rm -f $POLICY' EXIT
}

# What apt-get and pip say is shown only as the name of a file, and only where they fail.
LOG=${TMPDIR:-/tmp}/memomalloc-install.$$.log

logged() {
  "$@" >"$LOG" 2>&1 && rm -f "$LOG"
}

get_packages() {
  apt-get update -qq && apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$@"
}

install_packages() {
  local missing
  command -v dpkg-query >/dev/null ||
    die "this is no Debian: install what these packages hold by your own means, then add --no-install: $*"
  missing=$(missing_of "$@" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  [ "$(id -u)" = 0 ] ||
    die "no root: have somebody run \`apt-get install --no-install-recommends $missing\`, then add --no-install"
  export DEBIAN_FRONTEND=noninteractive
  deny_servers
  # shellcheck disable=SC2086
  with_clock "installing: $missing" logged get_packages $missing ||
    die "no network, or no package: apt-get cannot get $missing; where they are there already, add --no-install ($LOG)"
}

# The distribution's interpreter first: its venv module is the one that the packages above install,
# and a version manager's python3 on PATH may be a shell script or lack headers and wheels.
base_python() {
  if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else command -v python3; fi
}

# True if the environment has all these packages, whichever way they came there.
python_has() {
  [ -x "$VENV/bin/python" ] && "$VENV/bin/python" -c '
import importlib.metadata, sys
for name in sys.argv[1:]:
    importlib.metadata.version(name)' "$@" 2>/dev/null
}

pip_install() {
  with_clock "installing into $VENV: $*" logged "$VENV/bin/python" -m pip install -qq --disable-pip-version-check "$@" ||
    die "no network, or no package: pip cannot get $*; where they are there already, add --no-install ($LOG)"
}

# A plain index may offer torch only with several gigabytes of GPU libraries. So: the CPU wheel where
# pip's configuration offers one, else the distribution's torch. MEMO_TORCH=pip takes whatever
# pip would pick.
install_python() {
  python_has torch torchvision numpy && return 0
  local python offered
  python=$(base_python)
  [ -x "$VENV/bin/python" ] || "$python" -m venv "$VENV"
  offered=$("$VENV/bin/python" -m pip index versions torch 2>/dev/null || true)
  if grep -qF "$TORCH+cpu" <<<"$offered"; then
    pip_install "torch==$TORCH+cpu"
  elif [ "${MEMO_TORCH:-}" = pip ]; then
    pip_install "torch==$TORCH"
  else
    # shellcheck disable=SC2086
    install_packages $packages_debian_torch
    "$python" -m venv --clear --system-site-packages "$VENV"
    return 0
  fi
  # Without its dependencies: they would replace the CPU torch.
  pip_install --no-deps "torchvision==$TORCHVISION"
  pip_install numpy pillow
}

# What tests of the scripts import. Beside the distribution's torch the distribution's own: others bring a
# numpy that it does not bear.
install_python_check() {
  python_has onnx matplotlib mypy gunicorn uvicorn prometheus_client && return 0
  if grep -qx 'include-system-site-packages = true' "$VENV/pyvenv.cfg"; then
    # shellcheck disable=SC2086
    install_packages $packages_debian_check
  else
    pip_install "onnx==$ONNX" matplotlib mypy gunicorn uvicorn prometheus_client
  fi
}

refuse_musl
case ${1:-demo} in
  build) install_packages $packages_build ;;
  demo)
    install_packages $packages_build $packages_python
    install_python
    ;;
  check)
    install_packages $packages_build $packages_python $packages_check
    install_python
    install_python_check
    ;;
  soak)
    install_packages $packages_build $packages_python $packages_check
    install_python
    install_python_check
    python_has pytest hypothesis || pip_install pytest hypothesis
    ;;
  cross) install_packages $packages_build $packages_python $packages_check $packages_cross ;;
  wheels) install_packages $packages_build python3-venv $packages_wheels ;;
  vm) install_packages $packages_build $packages_vm ;;
  *) die "usage: install_deps.sh [build|demo|check|soak|cross|wheels|vm]" ;;
esac
