#!/bin/bash
# Installs the wheel in bare chroots of Debian 11, 12 and 13, which have no compiler, and asks the doctor of a small
# program: try_wheel.sh [RELEASE...]. As root, with a network; the chroots' bases stay in ~/.cache/memomalloc.
set -euo pipefail
. "$(dirname "$0")/common.sh"

WHEEL=$(find "$PWD/dist" -name "memomalloc-$(cat VERSION)-*-manylinux_*_$(uname -m).whl" | head -1)
[ -n "$WHEEL" ] || die "there is no wheel in dist/; \`make wheels\` builds it"
[ "$(id -u)" = 0 ] || die "only root can make a chroot"
command -v debootstrap >/dev/null || die "apt-get install debootstrap"
CACHE=${MEMO_CHROOTS:-$HOME/.cache/memomalloc}
MIRROR=$(python3 -c 'import sys; sys.path.insert(0, "scripts"); import debian_packages; print(debian_packages.find_mirror())')
mkdir -p "$CACHE"

# What the machine's own pip is told of indexes, certificates and folders with packages.
copy_network() {
  local root=$1 folder
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  mkdir -p "$root/etc/ssl/certs" "$root/root/.config"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
  [ ! -e ~/.config/pip ] || cp -r ~/.config/pip "$root/root/.config/"
  for folder in $({ python3 -m pip config list; env | grep ^PIP_; } 2>/dev/null | grep -oE '(file://)?/[A-Za-z0-9_./-]+' |
    sed 's#^file://##' | cut -d/ -f2 | sort -u | grep -vE '^(etc|usr|dev|proc|root)?$'); do
    [ -d "/$folder" ] || continue
    mkdir -p "$root/$folder"
    mount --bind -o ro "/$folder" "$root/$folder"
    echo "$root/$folder"
  done
}

try_release() {
  local base=$CACHE/base-$1 root mounts result=0
  if [ ! -e "$base/done" ]; then
    rm -rf "$base"
    debootstrap --variant=minbase --include=python3,python3-pip,python3-venv "$1" "$base" "$MIRROR" >"$CACHE/$1.log" || return 2
    touch "$base/done"
  fi
  root=$(mktemp -d "$CACHE/try-$1.XXXXXX")
  cp -a "$base/." "$root/"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mounts="$root/proc $root/dev $(copy_network "$root")"
  cp "$WHEEL" "$root/root/"
  cp scripts/vm/numpy_loop.py "$root/root/infer.py"
  # shellcheck disable=SC2046
  chroot "$root" env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin:/sbin $(env | grep ^PIP_ | tr '\n' ' ') bash -euc '
    cd /root
    if command -v cc g++ gcc clang; then echo "there is a compiler"; exit 1; fi
    python3 -m venv env
    . env/bin/activate
    pip install -q --disable-pip-version-check ./memomalloc-*.whl numpy
    memomalloc doctor -- python infer.py
    python -c "import memomalloc; assert memomalloc.library_path()"
    test -e env/share/man/man1/memomalloc.1' || result=1
  # Never with something of the machine's mounted in it.
  # shellcheck disable=SC2086
  if umount $mounts; then rm -rf --one-file-system "$root"; fi
  return $result
}

failed=0 passed=0
[ $# -gt 0 ] || set -- bullseye bookworm trixie
for release in "$@"; do
  began=$(date +%s)
  if try_release "$release"; then passed=$((passed + 1)) word=ok; else failed=$((failed + 1)) word=FAILED; fi
  echo "== $release: $word, $(($(date +%s) - began)) s"
done
echo "$passed passed, $failed failed"
exit $((failed > 0))
