#!/bin/sh
# Builds the core module: build.sh SDK OUT
#
# The SDK is in C: its headers are translated to Zig, and its sources are compiled with the probe's. `zig` may be
# Python's package `ziglang`.
set -eu
sdk=$1
out=$2
run_zig() {
    if command -v zig >/dev/null; then zig "$@"; else python3 -m ziglang "$@"; fi
}
mkdir -p build "$(dirname "$out")"
target=wasm32-wasi
run_zig translate-c -target $target -lc -I "$sdk" c.h >build/c.zig
run_zig build-exe -target $target -mexec-model=reactor -lc -O ReleaseSmall -fstrip -rdynamic --stack 1048576 -femit-bin="$out" \
    -I "$sdk" --dep c -Mroot=probe.zig -lc -cflags -std=c11 -- "$sdk"/*.c "$sdk"/reconciler/*.c -Mc=build/c.zig
