#!/bin/sh
# Usage: build.sh WIT OUT. It needs `cargo`, and std for wasm32-wasip2.
set -eu
cargo build --quiet --locked --release --target wasm32-wasip2 --target-dir target
cp target/wasm32-wasip2/release/stock_rust.wasm "$2"
