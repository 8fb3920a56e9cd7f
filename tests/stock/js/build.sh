#!/bin/sh
# Usage: build.sh WIT OUT. It needs `componentize-js` in the PATH.
set -eu
componentize-js plugin.js --wit "$1" --world-name reconciler-plugin --out "$2"
