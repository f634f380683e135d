# The menu of tasks. `make` alone prints it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Where rustup puts cargo, for a shell that has not been told yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

WIRELENS := target/release/wirelens
DEMO := testdata/demo.pcapng
# Captures that may not be passed on are kept beside the repository; see CONTRIBUTING.md.
WIDE_DATA := ../shared/data
PYTHON_CODE := $(wildcard python testbed tests tools bench)
# pytest's status for "no test found".
NO_TESTS := 5

.PHONY: help setup build demo test rust-test python-test test-wide lint bench fuzz-smoke fuzz \
	capture clean

# The menu is made of the two-hash comments beside the targets.
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building and testing need (make does it where needed)
	@bash tools/setup.sh test

build: ## build the command, target/release/wirelens
	@bash tools/setup.sh base
	cargo build --release --locked

demo: ## build, then show what is in the capture that ships and who sends most in it
	@bash tools/setup.sh base
	cargo build --release --locked
	$(WIRELENS) info -r $(DEMO)
	$(WIRELENS) top -r $(DEMO)
	@printf '%s\n' '' 'Now with a capture of your own:' \
		'  $(WIRELENS) top -r FILE          pcap or pcapng, also .gz and .zst, a folder, or - for stdin' \
		'  $(WIRELENS) top -r FILE --by flow -n 20' \
		'  $(WIRELENS) top -r FILE --window 1s -o top.parquet' \
		'  $(WIRELENS) --help'

test: lint rust-test python-test fuzz-smoke ## lint, all tests that need only the repository, a short fuzz run

rust-test:
	@bash tools/setup.sh test
	cargo test --release --workspace --locked

python-test:
	@bash tools/setup.sh test
	@if ! compgen -G 'tests/test_*.py' >/dev/null; then echo 'python-test: tests/ holds no test yet'; \
	else .venv/bin/python -m pytest tests -o markers='wide: reads captures beside the repository' \
		-m 'not wide'; fi

test-wide: ## the tests that read the captures in ../shared/data; skipped where it is absent
	@bash tools/setup.sh test
	@if [ ! -d $(WIDE_DATA) ]; then echo 'test-wide: SKIPPED: no captures at $(WIDE_DATA)'; else \
		set -x; cargo test --release --workspace --locked -- --ignored; \
		if compgen -G 'tests/test_*.py' >/dev/null; then \
			.venv/bin/python -m pytest tests -o markers='wide: reads captures beside the repository' \
				-m wide || [ $$? -eq $(NO_TESTS) ]; fi; fi

lint: ## format, clippy and ruff; changes nothing
	@bash tools/setup.sh test
	cargo fmt --all --check
	$(if $(wildcard fuzz/Cargo.toml),cargo fmt --manifest-path fuzz/Cargo.toml --check)
	cargo clippy --release --workspace --all-targets --locked -- -D warnings
	$(if $(PYTHON_CODE),.venv/bin/ruff check --quiet --config tools/ruff.toml $(PYTHON_CODE))

bench: ## the paper's figures and wirelens beside its peers; results under bench/results/
	@bash tools/setup.sh bench
	bash bench/run.sh

fuzz-smoke: ## every fuzz target for some seconds; part of make test
	@bash tools/setup.sh test
	bash tools/fuzz.sh smoke

fuzz: ## every fuzz target for ten minutes (SECONDS=n for less or more)
	@bash tools/setup.sh test
	bash tools/fuzz.sh long $(if $(filter command line,$(origin SECONDS)),$(SECONDS),600)

capture: ## make the capture that ships anew (root; Linux network namespaces)
	@bash tools/setup.sh capture
	python3 testbed/demo_capture.py --install --output $(DEMO)

clean: ## remove what was built, the virtual environment included
	rm -rf target fuzz/target .venv
