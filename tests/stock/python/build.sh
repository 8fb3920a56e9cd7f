#!/bin/sh
# build.sh WIT OUT: with `componentize-py` in the PATH.
set -eu
componentize-py -d "$1" -w reconciler-plugin componentize app -o "$2"
