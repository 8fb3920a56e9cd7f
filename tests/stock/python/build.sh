#!/bin/sh
# Usage: build.sh WIT OUT. It needs `componentize-py` in the PATH, and the folder with WASI's WIT files in WASI_WIT.
set -eu
componentize-py -d "$1" -d "$WASI_WIT" -d world.wit -w stock:python/plugin componentize app -o "$2"
