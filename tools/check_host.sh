#!/usr/bin/env bash
# Says early what a build cannot do without: a C++20 compiler and the headers of the Python that builds _core.
set -euo pipefail

python=${1:?usage: check_host.sh PYTHON CXX}
cxx=${2:?usage: check_host.sh PYTHON CXX}

root_apt() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  printf '[env] installing %s with apt-get\n' "$*"
  DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null
}

if ! command -v "$cxx" >/dev/null; then
  root_apt g++ || { echo "error: no C++ compiler '$cxx' on PATH; install g++ 12 or newer" >&2; exit 1; }
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
printf '#include <span>\n#include <bit>\nint main() { return std::popcount(0u); }\n' >"$dir/t.cc"
"$cxx" -std=c++20 -o "$dir/t" "$dir/t.cc" \
  || { echo "error: $cxx cannot compile C++20; g++ 12 or newer is needed" >&2; exit 1; }

headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
if [ ! -e "$headers/Python.h" ]; then
  version=$("$python" -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")')
  root_apt "python$version-dev" || {
    echo "error: no $headers/Python.h; install the development files of Python (Debian: python$version-dev)" >&2
    exit 1
  }
fi
