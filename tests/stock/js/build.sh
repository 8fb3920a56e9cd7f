#!/bin/sh
# build.sh WIT OUT: with `componentize-js` in the PATH.
set -eu
componentize-js plugin.js --wit "$1" --world-name reconciler-plugin --out "$2"
