#!/usr/bin/env bash
# Creates a virtual environment in $1 with interpreter $2, also where the ensurepip module was stripped off
# (Debian without python3-venv). Decides how pip gets in; leaves what is installed to the Makefile.
set -euo pipefail

venv=${1:?usage: make_env.sh VENV PYTHON}
python=${2:?usage: make_env.sh VENV PYTHON}

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

command -v "$python" >/dev/null || die "no '$python' on PATH; install Python 3.11 or newer, or: make PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || die "$python is $("$python" -V 2>&1); softmrc needs Python 3.11 or newer (make PYTHON=/path/to/python3.11)"

works() { [ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }

if works; then
  exit 0
fi
rm -rf "$venv"
say "[env] creating $venv with $("$python" -V)"

if "$python" -m venv "$venv" >/dev/null 2>&1 && works; then
  exit 0
fi

# No ensurepip: an empty environment, filled by a pip from outside. --target is not blocked by PEP 668.
rm -rf "$venv"
if "$python" -m venv --without-pip "$venv" >/dev/null 2>&1 && "$python" -m pip --version >/dev/null 2>&1; then
  say "[env] this Python has no ensurepip; installing pip with the pip of $python"
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  if "$python" -m pip install -qq --target "$site" pip && works; then
    exit 0
  fi
fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  say "[env] this Python has neither ensurepip nor pip; installing python3-venv with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >/dev/null
  minor=$("$python" -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")')
  apt-get install -y -q --no-install-recommends "python$minor-venv" >/dev/null \
    || apt-get install -y -q --no-install-recommends python3-venv >/dev/null
  rm -rf "$venv"
  if "$python" -m venv "$venv" && works; then
    exit 0
  fi
fi

rm -rf "$venv"
die "cannot create a virtual environment with $python: it has neither ensurepip nor pip.
       Debian, Ubuntu: apt-get install python3-venv    Fedora: dnf install python3-pip    then run 'make env' again."
