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

# $(call pytest,MARKS,OPTIONS): the tests of tests/ with these marks. That there is none, pytest's
# status 5, is said and no failure. Files of tests run side by side where $(SIDE_BY_SIDE) is given;
# tests that send traffic in real time have the machine for themselves. In the order of their names:
# otherwise files with few tests, which take longest, come last, and one processor waits.
SIDE_BY_SIDE := -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder
define pytest
if compgen -G 'tests/test_*.py' >/dev/null; then \
	.venv/bin/python -m pytest tests -rs $(2) -m '$(1)' || [ $$? -eq 5 ]; \
else echo 'pytest: tests/ holds no test yet'; fi
endef

.PHONY: help setup build page docs python demo test rust-test test-checked python-test test-train test-ray test-live soak \
	live-tests test-ns3 ns3-tests test-web web-tests test-wide wide-tests lint deny bpf ns3 bench reproduce fuzz-smoke fuzz capture install uninstall \
	deb sbom reproducible container portable wheel test-portable portable-tests program clean
# Each task wants all processors for itself.
.NOTPARALLEL:

# The menu is made of the two-hash comments beside the targets.
help:
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building and testing need (make does it where needed)
	@bash tools/setup.sh test

# The command alone, with the features of what the Python package builds, so that either finds what
# the other compiled.
BUILD = cargo build --release --locked --package wirelens --package wirelens-python --bin wirelens

build: ## build the command, target/release/wirelens
	@bash tools/setup.sh base
	@bash tools/page.sh
	$(BUILD)

# Where `make install` puts things: $(DESTDIR)$(PREFIX)/bin and so on.
PREFIX ?= /usr/local
INSTALL = PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' bash tools/install.sh

# The program, built where it is older than its sources: `sudo make install` compiles nothing after
# `make build`. One that is named on the command line is taken as it is.
program:
	@$(if $(filter file,$(origin WIRELENS)),bash tools/install.sh current $(WIRELENS) || \
		$(MAKE) --no-print-directory build,true)

install: program ## install the program, manual pages and completions (PREFIX=/usr/local, DESTDIR)
	@$(INSTALL) install $(WIRELENS)

uninstall: ## remove what install has put there
	@$(INSTALL) uninstall

sbom: program ## list what the program is made of, with hashes: target/wirelens.cdx.json (CycloneDX 1.6)
	cargo metadata --locked --format-version 1 --filter-platform "$$(rustc --print host-tuple)" | \
		python3 tools/sbom.py $(WIRELENS) >target/wirelens.cdx.json

reproducible: ## build the program twice, in two folders, and compare; 25 CPU minutes
	@bash tools/reproducible.sh

deb: program ## make the Debian package, target/wirelens_VERSION_ARCHITECTURE.deb
	@bash tools/deb.sh $(WIRELENS)

container: program ## build the container image wirelens:VERSION with podman, buildah or docker (BASE=an image of Debian)
	@bash tools/container.sh $(WIRELENS)

portable: ## build the program for any Linux with glibc 2.17: target/portable (TARGET=aarch64; 15 CPU minutes)
	@bash tools/portable.sh program

wheel: ## build the Python wheel with the program in it for the same systems, beside it (TARGET=aarch64)
	@bash tools/portable.sh wheel

page: ## build the page, page/dist, which becomes a part of the command (Node.js)
	@bash tools/page.sh

docs: ## build the site of the documentation, target/docs (mdBook, compiled once: two minutes)
	@bash tools/docs.sh

python: ## build the Python package and install it into .venv
	@bash tools/setup.sh test
	@bash tools/page.sh
	@bash tools/python.sh

demo: ## build, then show what is in the capture that ships: its packets, senders, flows and their services
	@bash tools/setup.sh base
	@bash tools/page.sh
	$(BUILD)
	$(WIRELENS) info -r $(DEMO)
	$(WIRELENS) top -r $(DEMO)
	$(WIRELENS) flows -r $(DEMO)
	$(WIRELENS) classify -r $(DEMO) --model models/services
	@printf '%s\n' '' 'The same in a browser, until Ctrl-C:' \
		'  $(WIRELENS) run -r $(DEMO) --page' \
		'' 'Now with a capture of your own:' \
		'  $(WIRELENS) top -r FILE          pcap or pcapng, also .gz and .zst, a folder, or - for stdin' \
		'  $(WIRELENS) top -r FILE --by flow -n 20' \
		'  $(WIRELENS) top -r FILE --window 1s -o top.parquet' \
		'  $(WIRELENS) --help'

test: lint deny rust-test test-checked python-test fuzz-smoke ## lint, licences of crates, all tests that need only the repository, a short fuzz run

# Crates of tables and states: their tests run once, with the checks.
CHECKED := engine packet classify packetlog cca latency names
# All others. Benchmarks are optimised where they measure; here that would be four minutes of compiling.
UNCHECKED = --workspace $(CHECKED:%=--exclude wirelens-%) --config 'profile.release.package.wirelens-bench.opt-level=0'

# With the page, as the program has it: what takes it in compiles once.
rust-test:
	@bash tools/setup.sh test
	@bash tools/page.sh
	cargo test --release $(UNCHECKED) --locked --no-fail-fast
	RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=3 cargo test --release --locked \
		-p wirelens-engine --lib ring --target-dir target/loom

test-checked: ## tests of tables and states, in which a state that cannot be stops the test
	cargo test --profile checked $(CHECKED:%=--package wirelens-%) --locked --no-fail-fast

python-test: python
	@$(call pytest,not wide and not testbed and not train and not ray and not ns3 and not web and not portable,$(SIDE_BY_SIDE))

test-train: build python ## models of scikit-learn, LightGBM, XGBoost and PyTorch, scored by both sides
	@bash tools/setup.sh train
	@$(call pytest,train,$(SIDE_BY_SIDE))

test-ray: python ## questions over Ray: the rows of one process, also where workers are killed; installs Ray (300 MB)
	@bash tools/setup.sh ray
	@$(call pytest,ray)

test-live: python ## the testbed's own runs, traffic in network namespaces; skipped without root
	@if [ "$$(id -u)" -ne 0 ]; then echo 'test-live: SKIPPED: it takes root'; \
	else $(WIRELENS) testbed check --install && bash tools/setup.sh nats && $(SENDER) && $(MAKE) --no-print-directory live-tests; fi

live-tests:
	@$(call pytest,testbed)

# With the packages of the program, so that what it was compiled with is found.
SENDER = cargo build --release --locked --package wirelens --package wirelens-python \
	--package wirelens-capture --example live_send

MINUTES ?= 60
# Where its rows go.
SOAK ?= target/soak

soak: build ## all applications on an interface for an hour at half load: memory, drops, rotation, the page (MINUTES=60; root)
	$(SENDER)
	.venv/bin/python bench/speed/run/soak.py $(SOAK) --minutes $(MINUTES)

test-ns3: ## an L4S router in ns-3: its delays, its trace, and its decisions again in Rust
	@if bash tools/setup.sh ns3; then $(MAKE) --no-print-directory ns3-tests; \
	elif [ "$$(id -u)" -ne 0 ]; then echo 'test-ns3: SKIPPED: ns-3 is not installed'; \
	else exit 1; fi

ns3-tests: python ns3
	@$(call pytest,ns3)

test-web: build python ## the page in Chromium: every view, live and as a report; skipped without Node.js or Chromium
	@if bash tools/setup.sh web; then bash tools/setup.sh nats && bash tools/page.sh test && \
		$(MAKE) --no-print-directory web-tests; \
	elif [ "$$(id -u)" -ne 0 ]; then echo 'test-web: SKIPPED: Node.js or Chromium is not installed'; \
	else exit 1; fi

# Beside the pages mdBook is compiled, by what these leave of the processors.
web-tests:
	@$(call pytest,web,$(SIDE_BY_SIDE))

test-portable: wheel ## programs and wheels for an old glibc in an old Debian; aarch64 where it is built
	@bash tools/setup.sh portable
	@$(MAKE) --no-print-directory portable-tests

portable-tests:
	@$(call pytest,portable)

test-wide: ## the tests that read the captures in ../shared/data (WIDE=all for each of them); skipped where it is absent
	@bash tools/setup.sh test
	@if [ -d $(WIDE_DATA) ]; then $(MAKE) --no-print-directory wide-tests; \
	else echo 'test-wide: SKIPPED: no captures at $(WIDE_DATA)'; fi

wide-tests: python
	cargo test --release $(UNCHECKED) --locked --no-fail-fast -- --ignored
	cargo test --profile checked $(CHECKED:%=--package wirelens-%) --locked --no-fail-fast -- --ignored
	@$(call pytest,wide,$(SIDE_BY_SIDE))

lint: ## format, clippy, ruff and mypy; changes nothing
	@bash tools/setup.sh test
	cargo fmt --all --check
	$(if $(wildcard fuzz/Cargo.toml),cargo fmt --manifest-path fuzz/Cargo.toml --check)
	$(if $(wildcard fuzz/Cargo.toml),cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null)
	cargo clippy --release --workspace --all-targets --locked -- -D warnings
	$(if $(PYTHON_CODE),.venv/bin/ruff check --quiet --config tools/ruff.toml $(PYTHON_CODE))
	bash tools/bpf.sh check
	MYPYPATH=python .venv/bin/mypy --no-error-summary python/wirelens python/examples tests/python/typed_use.py
	MYPYPATH=testbed .venv/bin/mypy --no-error-summary -p wirelens_testbed

# ADVISORIES=FOLDER: a clone of RustSec's advisory-db.
deny: ## licences, bans and sources of crates (ADVISORIES=FOLDER: advisories as well; compiles cargo-deny once)
	@bash tools/deny.sh $(if $(ADVISORIES),--advisories $(ADVISORIES))

bpf: ## build the BPF objects anew after a change of their sources (clang, llvm, libbpf-dev)
	bash tools/bpf.sh

NS3_LIBRARIES := internet point-to-point traffic-control network stats bridge core
NS3_OBJECTS := $(patsubst testbed/%.cc,target/%.o,$(wildcard testbed/ns3/*.cc))
NS3_ONETAP := $(addprefix target/ns3/,onetap.o captures.o)
NS3_BOTH := $(addprefix target/ns3/,controls.o scenario.o)

ns3: ## build what runs in ns-3, target/ns3/l4s and target/ns3/onetap (g++, libns3-dev)
	@bash tools/setup.sh ns3
	cargo build --release --locked --package wirelens --package wirelens-python --package wirelens-l4s-abi --lib
	@$(MAKE) --no-print-directory target/ns3/l4s target/ns3/onetap

target/ns3/%.o: testbed/ns3/%.cc $(wildcard testbed/ns3/*.h)
	@mkdir -p $(@D)
	g++ -std=c++17 -O2 -Wall -Wextra -Werror \
		-DWIRELENS_SIZES='"$(CURDIR)/testbed/data/message-sizes.txt"' -c $< -o $@

target/ns3/onetap: $(NS3_ONETAP) $(NS3_BOTH)
	g++ $^ -o $@ $(NS3_LIBRARIES:%=-lns3-%) -lpthread -ldl

target/ns3/l4s: $(filter-out $(NS3_ONETAP),$(NS3_OBJECTS)) target/release/libl4s_abi.a
	g++ $^ -o $@ $(NS3_LIBRARIES:%=-lns3-%) -lpthread -ldl

bench: ## the paper's figures and wirelens beside its peers; results under bench/results/
	@bash tools/setup.sh bench
	bash bench/speed/run.sh

# Folders of data, such as HELDOUT=DIR, are read from the environment, where make puts what its command
# line sets.
reproduce: ## a row of docs/reproduction.md again (FIGURE=ID, FULL=1, PLAN=1); alone: the list of rows
	@bash tools/setup.sh base
	@.venv/bin/python bench/reproduce/reproduce.py $(FIGURE) $(if $(FULL),--full) \
		$(if $(PLAN),--plan) $(if $(COMPARE),--compare) $(if $(ONLY),--only '$(ONLY)')

fuzz-smoke: ## every parser's fuzz target for a second (FUZZ_WHOLE=1: whole commands, FUZZ_ASAN=0: without AddressSanitizer); part of make test
	@bash tools/setup.sh test
	bash tools/fuzz.sh smoke

fuzz: ## the fuzz targets for HOURS=n hours of processor time, 8 if none are given
	@bash tools/setup.sh test
	bash tools/fuzz.sh long $(or $(HOURS),8)

capture: build ## make the capture that ships anew (root; Linux network namespaces)
	$(WIRELENS) testbed check demo --install
	$(WIRELENS) testbed run testbed/scenarios/demo.toml -o target/testbed
	mv target/testbed/demo-1/demo.pcapng $(DEMO)
	rm -r target/testbed/demo-1

clean: ## remove what was built, the virtual environment included
	rm -rf target fuzz/target .venv python/wirelens/bin
