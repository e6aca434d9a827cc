#!/usr/bin/env bash
# Builds the libFuzzer targets with clang and runs each for a while: run.sh BUILD SECONDS JOBS CMAKE NINJA.
set -euo pipefail

build=$1 seconds=$2 jobs=$3 cmake=$4 ninja=$5
clang=${CLANGXX:-}
for name in clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14; do
  [ -n "$clang" ] || ! command -v "$name" >/dev/null || clang=$name
done
if [ -z "$clang" ]; then
  cat >&2 <<'TEXT'
error: make fuzz needs clang++ with libFuzzer, which PyPI does not have.
       Debian: apt-get install clang libclang-rt-dev     (or: make fuzz CLANGXX=/path/to/clang++)
       Without it the corpora still run: make test, make test-asan.
TEXT
  exit 1
fi

"$cmake" -S . -B "$build" -G Ninja -DCMAKE_MAKE_PROGRAM="$PWD/$ninja" -DCMAKE_CXX_COMPILER="$clang" \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSOFTMRC_FUZZ=ON -DSOFTMRC_SANITIZE=fuzzer-no-link,address,undefined >"$build.log" \
  || { cat "$build.log" >&2; exit 1; }
"$ninja" -C "$build" -j "$jobs" --quiet fuzz_wire fuzz_engine
for target in wire engine; do
  mkdir -p "$build/corpus/$target" "$build/findings"
  echo "[fuzz] $target for $seconds s"
  "$build/fuzz/fuzz_$target" -max_total_time="$seconds" -max_len=4096 -timeout=20 -print_final_stats=1 \
    -artifact_prefix="$build/findings/$target-" "$build/corpus/$target" "fuzz/corpus/$target"
done
