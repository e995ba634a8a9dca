# Shared by the shell scripts, which source it: the project's root, its Python environment, messages.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VENV=${MEMO_VENV:-$PWD/.venv}

die() {
  echo "$(basename "$0"): $*" >&2
  exit 2
}

# musl's ldd tells of itself on stderr, and fails.
refuse_musl() {
  local told
  told=$(ldd --version 2>&1 || true)
  ! grep -qi musl <<<"$told" ||
    die "the C library here is musl, and the library needs glibc: use an image of Debian, Ubuntu or the like"
}

# Prints the interpreter that has torch and torchvision: the project's environment, else python3.
find_python() {
  if [ -x "$VENV/bin/python" ]; then
    echo "$VENV/bin/python"
  else
    command -v python3 || die "no python3 here; run scripts/install_deps.sh as root"
  fi
}

# with_clock TEXT COMMAND...: runs it, and shows on a terminal for how long; what it prints goes to stderr.
with_clock() {
  local text=$1 begin=$SECONDS clock='' code=0
  shift
  echo "$text" >&2
  if [ -t 2 ]; then # the clock in the background, for what runs there does not hear Ctrl-C
    while kill -0 $$ 2>/dev/null; do
      printf '\r  %d s' $((SECONDS - begin)) >&2
      sleep 1
    done &
    clock=$!
  fi
  "$@" >&2 || code=$?
  if [ -n "$clock" ]; then
    kill $clock
    wait $clock 2>/dev/null || true
    printf '\r\033[K' >&2
  fi
  return $code
}

# build_with_progress TARGET: makes it, and shows how many of its files are compiled.
build_with_progress() {
  local files tool
  for tool in make "${CXX:-g++}"; do
    command -v "$tool" >/dev/null || die "$tool is missing: run scripts/install_deps.sh build as root, or use a wheel (--wheel)"
  done
  files=$(make -n V=1 "$1" | grep -c -- ' -c ' || true)
  [ "$files" = 0 ] || echo "building $1: $files files to compile" >&2
  make -j"$(nproc)" "$1" | while read -r line; do
    case $line in
      CXX*)
        done_files=$((${done_files:-0} + 1))
        if [ -t 2 ]; then
          printf '\r\033[K  %d of %d' "$done_files" "$files" >&2
        elif [ $((done_files % 20)) = 0 ]; then
          echo "  $done_files of $files" >&2
        fi
        ;;
      LD*) [ ! -t 2 ] || printf '\r\033[K' >&2 ;;
      *) echo "$line" >&2 ;;
    esac
  done
}
