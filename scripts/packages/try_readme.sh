#!/bin/bash
# Runs README.md's blocks in their order, as printed, in a fresh clone in bare Debians: try_readme.sh [RELEASE...]. As root,
# with a network; chroots as for try_wheel.sh, but without Python. READER=sudo: as a user with sudo instead of root.
# WHOLE=1: the whole check; else its steps build and unit alone, and no `make test`. QUICK=1: fewer iterations of the
# networks, for a busy machine.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
PACKAGES='' . scripts/packages/chroots.sh
READER=${READER:-root}

# The blocks as one script, which says which line it is at.
blocks() {
  echo 'PS4="== "; set -eux; PATH=/usr/local/sbin:/usr/local/bin:$PATH'
  awk '/^```/{shell = !shell && /^```sh$/; next} shell' README.md
}

try_release() {
  local result=0
  make_root "$1" || return 2
  git clone -q "$PWD" "$ROOT/root/project"
  blocks >"$ROOT/root/lines.sh"
  [ -n "${WHOLE:-}" ] || sed -i 's#^\./scripts/check\.sh#& build unit#; /^make test/d' "$ROOT/root/lines.sh"
  [ -z "${QUICK:-}" ] || sed -i 's#^\./scripts/demo\.sh#& --iterations 8 --rounds 1#; s/--runs 2/--runs 1 --warmup 0/
    s/--iterations 20/--iterations 8/' "$ROOT/root/lines.sh"
  case $READER in
    root) in_root '
      if command -v sudo || command -v python3 || command -v make; then echo "this is not bare"; exit 1; fi
      sudo() { "$@"; } # root needs none
      cd project
      . ../lines.sh' || result=1 ;;
    sudo) in_root '
      apt-get update -qq
      apt-get install -y -qq --no-install-recommends sudo >/dev/null
      useradd --create-home reader
      echo "reader ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/reader
      cp -r .config /home/reader/
      mv project lines.sh /home/reader/
      chown -R reader: /home/reader
      exec sudo -H -E -u reader bash -euc "cd ~/project; . ../lines.sh"' || result=1 ;;
    *) die "READER is root or sudo" ;;
  esac
  drop_root
  return $result
}

[ $# -gt 0 ] || set -- bookworm trixie
try_all try_release "$@"
