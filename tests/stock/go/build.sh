#!/bin/sh
# Usage: build.sh WIT OUT. It needs `go`, and `adapt` of tests/src/bin in the PATH.
set -eu
mkdir -p build
GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -buildvcs=false -ldflags='-s -w -buildid=' -o build/core.wasm .
adapt "$1" build/core.wasm "$2"
