# Shared by the shell scripts, which source it: the project's root, its Python environment, messages.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VENV=${MEMO_VENV:-$PWD/.venv}

die() {
  echo "$(basename "$0"): $*" >&2
  exit 2
}

# Prints the interpreter that has torch and torchvision: the project's environment, else python3.
find_python() {
  if [ -x "$VENV/bin/python" ]; then
    echo "$VENV/bin/python"
  else
    command -v python3 || die "no python3 here; run scripts/install_deps.sh as root"
  fi
}
