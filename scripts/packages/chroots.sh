# Bare Debians to try packages in, shared by the shell scripts that source it after common.sh. As root, with a network.
# PACKAGES: what they hold beside the least.
[ "$(id -u)" = 0 ] || die "only root can make a chroot"
# With mounts of its own, which end with the script, however that ends: nothing of the machine's stays mounted below CACHE.
[ -n "${MEMO_UNSHARED:-}" ] || MEMO_UNSHARED=1 exec unshare --mount "scripts/packages/${0##*/}" "$@"
command -v debootstrap >/dev/null || die "apt-get install debootstrap"
CACHE=${MEMO_CHROOTS:-$HOME/.cache/memomalloc}
MIRROR=$(python3 -c 'import sys; sys.path.insert(0, "scripts/packages"); import debian_packages; print(debian_packages.find_mirror())')
PACKAGES=${PACKAGES-python3,python3-pip,python3-venv}
mkdir -p "$CACHE"
ROOT='' MOUNTS=''

# What the machine's own pip is told of indexes, certificates and folders with packages. Prints what it has mounted.
copy_network() {
  local root=$1 folder
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  mkdir -p "$root/etc/ssl/certs" "$root/root/.config"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  # A package that makes that file again takes the machine's own ones from here.
  mkdir -p "$root/usr/local/share/ca-certificates"
  [ ! -d /usr/local/share/ca-certificates ] || cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
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

# make_root RELEASE: a fresh copy of that bare Debian, in ROOT; drop_root takes it away.
make_root() {
  local base=$CACHE/base${PACKAGES:+-python}-$1
  if [ ! -e "$base/done" ]; then
    rm -rf "$base"
    debootstrap --variant=minbase ${PACKAGES:+--include=$PACKAGES} "$1" "$base" "$MIRROR" >"$CACHE/$1.log" || return 2
    touch "$base/done"
  fi
  ROOT=$(mktemp -d "$CACHE/try-$1.XXXXXX")
  cp -a "$base/." "$ROOT/"
  mount -t proc proc "$ROOT/proc"
  mount --bind /dev "$ROOT/dev"
  mount --make-private "$ROOT/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$ROOT/dev/shm" # for users' semaphores
  # No terminal for packages to ask on, and none to be had.
  echo 'Dpkg::Use-Pty "0";' >"$ROOT/etc/apt/apt.conf.d/90-no-terminal"
  MOUNTS="$ROOT/proc $ROOT/dev/shm $ROOT/dev $(copy_network "$ROOT")"
}

# Never with something of the machine's mounted in it.
drop_root() {
  # shellcheck disable=SC2086
  if umount $MOUNTS; then rm -rf --one-file-system "$ROOT"; fi
}

# in_root SHELL_TEXT: runs it in ROOT, as root, in /root.
in_root() {
  # shellcheck disable=SC2046
  chroot "$ROOT" env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin:/sbin DEBIAN_FRONTEND=noninteractive \
    $(env | grep ^PIP_ | tr '\n' ' ') bash -euc "cd /root; $1"
}

# A reader's program: blocks of several sizes again and again, by Python alone.
write_program() {
  echo 'for _ in range(300): layers = [bytearray((number % 5 + 1) << 18) for number in range(8)]' >"$ROOT/root/infer.py"
}

# try_all FUNCTION RELEASE...: calls it for each, and tells how it went.
try_all() {
  local what=$1 release began word failed=0 passed=0
  shift
  for release in "$@"; do
    began=$(date +%s)
    if "$what" "$release"; then passed=$((passed + 1)) word=ok; else failed=$((failed + 1)) word=FAILED; fi
    echo "== $release: $word, $(($(date +%s) - began)) s"
  done
  echo "$passed passed, $failed failed"
  [ $failed = 0 ]
}
