# The project's commands. `make` lists them. tools/README.md explains the scripts behind them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Cargo and Go use all cores by themselves.
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules

CARGO_TARGET_DIR ?= target

# `bench` and `bench-check` pass these variables on.
export QUICK CASES CONTENDERS ROUNDS SEED RECORD BUILD

.PHONY: help setup build plugins interpreter guests conformance stock dropins demo test soak fuzz bench bench-check clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 \2/p' $(MAKEFILE_LIST) | awk '{ printf "  %s %-11s", $$1, $$2; $$1 = $$2 = ""; print }'

setup: ## install what the build needs; TESTS=1: and what the tests need
	@tools/setup $(if $(TESTS),tests,build)

# The host's crates are built together: cargo unifies their features, so that demo and tests share one build.
build: setup plugins interpreter ## build the host (target/debug/windlass) and the plugins
	cargo build --locked --workspace --bins

# The host contains the interpreter, so it is built first. A host without it cannot build plugins in Starlark, and reports so.
interpreter: setup ## build the interpreter of Starlark to target/interpreter
	@tools/build-interpreter

# The composite WebApp plugin has its own folder: in one host, both would fight over each WebApp.
plugins: setup ## build the plugins to target/plugins
	tools/build-component webapp $(CARGO_TARGET_DIR)/plugins
	tools/build-component replicaset $(CARGO_TARGET_DIR)/plugins
	tools/build-component webapp-composite $(CARGO_TARGET_DIR)/plugins/composite

guests: setup ## build the tests' own components to target/guests
	tools/build-component chameleon $(CARGO_TARGET_DIR)/guests
	tools/build-component probe $(CARGO_TARGET_DIR)/guests
	tools/build-component buggy $(CARGO_TARGET_DIR)/guests
	tools/build-component composer $(CARGO_TARGET_DIR)/guests
	tools/build-component hostile $(CARGO_TARGET_DIR)/guests
	tools/build-component operators $(CARGO_TARGET_DIR)/guests

conformance: build ## build the conformance suite's probes, and the WebApp plugins of all languages; NAMES="go webapp-ts": only these
	@tools/build-conformance $(NAMES)

stock: build ## build the tests' plugins by stock toolchains, without an SDK
	@tools/build-stock $(NAMES)

dropins: build ## build the drop-in operators to target/dropins; NAMES="replicator": only these
	@tools/build-dropins $(NAMES)

# Builds only what the demo runs, and hides cargo's own lines. The host is built with the flags of `build`, so that tests share it.
demo: setup ## see the WebApp plugin reconcile; KEEP=1: leave it running
	@tools/progress "Building the WebApp plugin" tools/build-component webapp $(CARGO_TARGET_DIR)/plugins
	@tools/progress "Building windlass (the first time takes minutes)" cargo build --locked --workspace --bins
	@WINDLASS_BIN=$(CARGO_TARGET_DIR)/debug/windlass WINDLASS_PLUGIN_DIR=$(CARGO_TARGET_DIR)/plugins \
		$(CARGO_TARGET_DIR)/debug/demo $(if $(KEEP),--keep)

test: ## run all the tests; STAGES="unit stories": only these
	@tools/setup tests
	@tools/test $(STAGES)

soak: ## run the long stories in full, and record them in docs/soak; STORIES="replicas crash": only these; SKEW_FROM=COMMIT: the other version of the story skew
	@tools/setup tests
	@tools/soak $(STORIES)

fuzz: setup ## fuzz the parsers of untrusted files, and record the results in docs/soak; TARGETS=loader: only this; FUZZ_SECONDS=300 each
	@tools/fuzz $(TARGETS)

# All commands select the whole workspace and the same profile: cargo unifies the features of the selected crates, so all share one build.
bench: ## measure; QUICK=1: less of it; PEERS=1: beside other controllers, CASES=converge,edit ROUNDS=5, CASES=dropins; docs/benchmarks.md has results
	@tools/setup tests
ifdef PEERS
	@tools/bench-peers
else
	tools/build-component probe $(CARGO_TARGET_DIR)/guests
	tools/build-component chameleon $(CARGO_TARGET_DIR)/guests
	tools/build-component hostile $(CARGO_TARGET_DIR)/guests
	cargo build --locked --workspace --bins --profile bench
	cargo bench --locked --workspace --bench queue
	cargo bench --locked --workspace --bench gate
	cargo bench --locked --workspace --bench overhead
	cargo bench --locked --workspace --bench engine $(if $(QUICK),-- --quick)
	cargo bench --locked --workspace --bench pointers
	cargo bench --locked --workspace --bench calls $(if $(QUICK),-- --quick)
	cargo bench --locked --workspace --bench host $(if $(QUICK),-- --quick)
	$(MAKE) --no-print-directory conformance stock
	tools/build-prototypes
	cargo bench --locked --workspace --bench languages $(if $(QUICK),-- --quick)
endif

bench-check: ## count instructions, and compare them with the recorded ones; RECORD=1: record them
	@tools/bench-check

clean: ## remove what was built here (not the caches of the machine)
	cargo clean
