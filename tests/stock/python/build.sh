#!/bin/sh
# build.sh WIT OUT: with `componentize-py` in the PATH, and in WASI_WIT the folder with the WIT files of WASI.
set -eu
componentize-py -d "$1" -d "$WASI_WIT" -d world.wit -w stock:python/plugin componentize app -o "$2"
