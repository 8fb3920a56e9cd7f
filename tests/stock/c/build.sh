#!/bin/sh
# Usage: build.sh WIT OUT. It needs Python's package `ziglang`, and `adapt` of tests/src/bin in the PATH.
set -eu
mkdir -p build
python3 -m ziglang cc --target=wasm32-wasi -mexec-model=reactor -std=gnu23 -Os -s -Wl,-z,stack-size=1048576 -Wall -Wextra -Werror -o build/core.wasm plugin.c
adapt "$1" build/core.wasm "$2"
