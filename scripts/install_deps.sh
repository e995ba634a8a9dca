#!/bin/bash
# Installs what building (build), the demonstration (demo), the full check (check), the long runs (soak), another
# processor (cross), wheels (wheels) or other kernels (vm) need. Quick when all is there. Packages come by apt, as root or
# by sudo; without either, and on systems without apt, it prints the list. Python packages go into .venv, or the
# environment that MEMO_VENV names.
set -euo pipefail
set -o noglob # `?` stands in names below
. "$(dirname "$0")/common.sh"

# The torch that the figures of the README were measured with, and the torchvision made for it.
TORCH=2.13.0
TORCHVISION='0.28.*'
# Tests compare what its checker and its shape inference say.
ONNX=1.23.2

LEFT_OUT=${MEMO_LEFT_OUT:-build/left_out} # scripts/gates/check.py reads it

# A package's names in different releases have `|` between them: the first that is there counts. One that ends with `?`
# is left out where the archives have none of its names, and the check then tells what it skips.
# python3 makes the man pages of `make install`.
packages_build="make g++ libxxhash-dev zlib1g-dev libcli11-dev nlohmann-json3-dev python3"
packages_python="python3-venv"
# What builds and judges; then what tests run beside or under the library, each of which would skip some test.
packages_check="git libcatch2-dev|catch2 binutils libbenchmark-dev coinor-libcbc-dev?
  clang-format-19|clang-format-20|clang-format-21? clang-tidy-19?
  clang-19|clang? libclang-rt-19-dev|libclang-rt-dev? valgrind
  sqlite3 libjemalloc2 libtcmalloc-minimal4t64|libtcmalloc-minimal4 libmimalloc2.0|libmimalloc2?
  stress-ng redis-server redis-tools python3-testsuite? chromium? pkg-config man-db libunwind8 cpio"
packages_wheels="binutils binutils-aarch64-linux-gnu"
packages_cross="g++-aarch64-linux-gnu"
packages_vm="qemu-system-x86 qemu-system-arm user-mode-linux"
packages_debian_torch="python3-torch python3-torchvision python3-numpy python3-pil"
packages_debian_check="python3-onnx? python3-matplotlib mypy"

installed() {
  [ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" = "install ok installed" ]
}

offered() {
  [[ $(LC_ALL=C apt-cache policy "$1" 2>/dev/null) =~ Candidate:\ [^\(] ]]
}

# The names between `|`. A test suite's package has its Python's version in its name.
each_of() {
  local names=${1%\?}
  [ "$names" != python3-testsuite ] || names="libpython$(python_version)-testsuite"
  tr '|' '\n' <<<"$names"
}

# Of the Python that is there, or that will be.
python_version() {
  /usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null ||
    LC_ALL=C apt-cache policy python3 | sed -n 's/^  Candidate: \([0-9]*\.[0-9]*\).*/\1/p'
}

# first_of TEST NAMES: the first of the names that passes the test.
first_of() {
  local name
  for name in $(each_of "$2"); do
    if "$1" "$name"; then
      echo "$name"
      return
    fi
  done
  return 1
}

# While packages are installed no server is started: tests start their own, on ports of their own.
POLICY=${MEMO_POLICY:-/usr/sbin/policy-rc.d} # where Debian looks for it
deny_servers() {
  [ -e $POLICY ] && return 0
  # shellcheck disable=SC2016
  as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >$0 && chmod +x $0' $POLICY
  trap 'as_root rm -f $POLICY' EXIT
}

# What apt-get and pip say is shown only as the name of a file, and only where they fail.
LOG=${TMPDIR:-/tmp}/memomalloc-install.$$.log

logged() {
  "$@" >"$LOG" 2>&1 && rm -f "$LOG"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Asked for in the foreground, once: a password cannot be typed beside a clock.
may_be_root() {
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -v; }
}

apt() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"
}

# One name of each, as a list for a person.
one_of_each() {
  local names
  # shellcheck disable=SC2046
  echo $(for names in "$@"; do first_of offered "$names" || each_of "$names" | head -1; done)
}

install_packages() {
  local names name missing=() wanted=() left_out=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    die "this system has no apt. Install what these packages of Debian hold by its own means, then add --no-install: $(one_of_each "$@")"
  fi
  for names in "$@"; do
    first_of installed "$names" >/dev/null || missing+=("$names")
  done
  [ ${#missing[@]} != 0 ] || return 0
  may_be_root ||
    die "no root, and no sudo: have somebody run \`apt-get install --no-install-recommends $(one_of_each "${missing[@]}")\`, then add --no-install"
  with_clock "reading the lists of packages (apt-get update)" logged apt update ||
    die "no network: apt-get update fails; where all is there already, add --no-install ($LOG)"
  for names in "${missing[@]}"; do
    if name=$(first_of offered "$names"); then
      wanted+=("$name")
    elif [[ $names == *\? ]]; then
      left_out+=("$(one_of_each "$names")")
    else
      die "the archives of this system have no package $(one_of_each "$names"): add them, or install what it holds and add --no-install"
    fi
  done
  if [ ${#left_out[@]} != 0 ]; then
    echo "left out, since the archives of this system do not have them: ${left_out[*]}" >&2
    mkdir -p "$(dirname "$LEFT_OUT")"
    printf '%s\n' "${left_out[@]}" >>"$LEFT_OUT"
  fi
  [ ${#wanted[@]} != 0 ] || return 0
  deny_servers
  with_clock "installing ${#wanted[@]} packages by apt-get: ${wanted[*]}" \
    logged apt install -y --no-install-recommends "${wanted[@]}" ||
    die "apt-get cannot install them; where they are there already, add --no-install ($LOG)"
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
  "$VENV/bin/python" -m pip --version >/dev/null 2>&1 || with_clock "making the Python environment $VENV" "$python" -m venv "$VENV"
  echo "asking pip for torch" >&2
  offered=$("$VENV/bin/python" -m pip index versions torch 2>/dev/null || true)
  if grep -qF "$TORCH+cpu" <<<"$offered"; then
    pip_install "torch==$TORCH+cpu"
  elif [ "${MEMO_TORCH:-}" = pip ]; then
    pip_install "torch==$TORCH"
  else
    # shellcheck disable=SC2086
    install_packages $packages_debian_torch
    # Over what is there, which may be the user's: only what the environment sees is changed.
    with_clock "making the Python environment $VENV" "$python" -m venv --system-site-packages "$VENV"
    python_has torch torchvision numpy || die "$VENV is of another Python and has no torch; name another folder in MEMO_VENV"
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
rm -f "$LEFT_OUT"
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
