# Gleaner's targets. `make help` explains them.
#
# The programs and the library go to target/release; everything that a target
# writes lies under target/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

CARGO ?= cargo
# --locked: build what Cargo.lock says, or stop.
CARGO_FLAGS ?= --locked
PREFIX ?= /usr/local
DESTDIR ?=

# One place, whatever the environment says: the tests look for programs there.
export CARGO_TARGET_DIR := $(CURDIR)/target

# What Python compiles is kept, whatever the environment says: the lab's libraries take seconds of each start otherwise.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/target/python

# What `make install` takes: scripts/release.sh has a build of its own.
BUILD := target/release
# What wants a newer compiler than the rest. No program or library has it but the command with its feature `wasm`.
NEWER := --exclude gleaner-wasm
LIBGC := $(BUILD)/libgc.so
GLEANER := $(BUILD)/gleaner
# The native door from C. What is installed has the name of its interface, not of its crate.
CAPI_SHARED := $(BUILD)/libgleaner_capi.so
CAPI_STATIC := $(BUILD)/libgleaner_capi.a
CAPI_HEADERS := $(addprefix crates/capi/include/,gleaner.h gleaner_elements.h gleaner_roots.h)
CAPI_SONAME := libgleaner.so.$(shell sed -n 's/^\#define GLEANER_INTERFACE //p' crates/capi/include/gleaner.h)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
CAPI_FILE := $(CAPI_SONAME).$(VERSION)
# Manual pages and the completion of shells, by where they lie below `share`.
PAGES := target/pages
PAGE_FILES := $(patsubst %,man/man1/%.1,gleaner gleaner-exec gleaner-compare gleaner-doctor gleaner-options gleaner-bench gleaner-place gleaner-report gleaner-heap) \
	bash-completion/completions/gleaner zsh/site-functions/_gleaner fish/vendor_completions.d/gleaner.fish
BENCH := target/release/gleaner-bench
LAB_VENV := target/lab/venv
LAB := $(LAB_VENV)/bin/gleaner-lab
CONFORMANCE := tests/conformance/run.sh --quiet
# A run under pressure: a collection at every STRESS-th allocation, the verifier
# at each phase edge, freed memory overwritten.
STRESS ?= 400
PRESSURE := verify=edges,poison=on,stress=
# What `make bench` measures, one after the other.
BENCH_EXPERIMENTS := libgc-clients boehm-table1 boehm-misses prefetch-hint minheap precise-heap precise-heap-mutators \
	deciders trace-orders zeroing-paper zeroing-micro zeroing-nursery zeroing naps-paper naps-host naps-synchronisation arrays arrays-mark-sweep arrays-cursors \
	arrays-optimisations arrays-first-n arrays-arraylets arrays-kinds arrays-heaps \
	arrays-fragmentation arrays-pauses array-counts workers workers-tiny workers-libgc placement-programs
# These are not part of `make bench`: they need what `make rivals` installs and builds.
RIVAL_BENCHES := bench-rivals bench-rivals-programs bench-rivals-heaps bench-rivals-steady \
	bench-zeroing-hotspot bench-wasm-rivals

# --- the two commands of the README -----------------------------------------

# A Scheme program that parses two long ambiguous sentences, on Gleaner and on libgc: compiled first, so that both run the same.
DEMO := target/demo/earley.go
DEMO_PROGRAM := guile --no-auto-compile -c '(load-compiled "$(DEMO)")' 200 2
.PHONY: demo
demo: packages-demo
	$(CARGO) build $(CARGO_FLAGS) --release -p gleaner-cli -p gleaner-libgc
	mkdir -p $(dir $(DEMO))
	guile --no-auto-compile clients/guile/build.scm clients/guile/earley.scm $(DEMO)
	$(GLEANER) compare -- $(DEMO_PROGRAM) || [ $$? = 3 ]

# Each step by the way it reports, and how it runs beside others (see scripts/steps.py): first what fails early, then what
# takes long, whatever of it is waiting, so that nothing long is left when the others have ended. `check-lab` installs the lab, which
# two of them want.
TEST_STEPS := \
	check-format:status check-scripts:status check-layers:tally check-crates:tally check-rooms:tally check-papers:tally check-results:tally check-system-calls:tally \
	check-lints:status compile-tests:status:first build:status:first check-lab:status:first check-pages:tally check-symbols:tally \
	test-rust:cargo test-lab:pytest test-generations:tally test-commands:tally \
	test-loom:cargo test-stress:tally test-capi:total test-mutants-short:tally \
	test-conformance-gleaner:tally test-singlestep:tally test-qemu:tally test-clients-default:tally \
	test-bdwgc:tally check-docs:status test-debian:tally test-package:tally \
	test-limits:tally test-threads:tally test-alone:cargo:alone

# What tests build is as it is installed, but for gleaner-bench, which takes minutes to compile as it is measured: it is the one
# that its own tests run.
test: export FOR_TESTS := 1
.PHONY: test
test: packages-test
	scripts/steps.py $(TEST_STEPS)

LONG_STEPS := docs:tally test-crates:status test-semver:status test-oldest:status test-release:tally test-rust-long:cargo test-loom-long:cargo test-clients-stress:tally test-singlestep-long:tally test-conformance-stock:tally test-commands-long:tally test-bdwgc-long:tally test-limits-long:tally test-debian-long:tally test-distros:total test-arm64:tally test-conformance-long:tally test-clients-long:tally \
	test-experiments:tally test-stress-long:tally test-clients-generations:tally test-clients-generations-long:tally test-generations-long:tally test-idle:tally check-rivals:status test-rivals:tally check-rivals-wasm:status test-rivals-wasm:tally test-wasm-large:tally \
	test-clients-every:tally test-soak:tally test-soak-storm:tally test-soak-workers:cargo test-qemu-long:tally

.PHONY: test-long
test-long: packages-test
	scripts/steps.py $(LONG_STEPS)

# --- building ----------------------------------------------------------------

.PHONY: build packages-build packages-demo packages-test packages-qemu packages-rivals packages-distros packages-arm64 packages-release
packages-build packages-demo packages-test packages-qemu packages-rivals packages-distros packages-arm64 packages-release: packages-%:
	scripts/install-packages.sh $*

# Steps that run beside each other build nothing: their runner has.
ifdef IS_BUILT
build: ;
else
build: packages-build
	$(CARGO) build $(CARGO_FLAGS) --release $(if $(FOR_TESTS),-p gleaner-cli -p gleaner-libgc -p gleaner-capi,--workspace $(NEWER))
	$(if $(FOR_TESTS),,$(WRITE_PAGES))
endif

# Manual pages and completions: by an example, which `compile-tests` compiles anyway.
WRITE_PAGES := $(CARGO) run $(CARGO_FLAGS) --quiet --release --package gleaner-cli --example pages -- $(PAGES)

BUILT := $(LIBGC) $(GLEANER) $(CAPI_SHARED) $(CAPI_STATIC)
$(BUILT) &:
	$(MAKE) build
BUILT_PAGES := $(PAGE_FILES:%=$(PAGES)/%)
$(BUILT_PAGES) &:
	$(WRITE_PAGES)

.PHONY: install uninstall deb release clean
# What is built is installed, so that `sudo make install` compiles nothing.
INSTALLED := $(DESTDIR)$(PREFIX)
INSTALLED_DIRS := bin lib/gleaner lib/pkgconfig include $(sort $(dir $(PAGE_FILES:%=share/%)))
# The directories that were not there before, a line each, for `uninstall`.
MADE := $(INSTALLED)/lib/gleaner/directories
install: | $(BUILT) $(BUILT_PAGES)
	made=$$(LC_ALL=C install -dv $(INSTALLED_DIRS:%="$(INSTALLED)/%") | sed -n "s/^install: creating directory '\(.*\)'$$/\1/p"); \
	if [ -n "$$made" ]; then echo "$$made" >> "$(MADE)"; fi
	install -m 755 $(GLEANER) "$(INSTALLED)/bin/gleaner"
	install -m 644 $(LIBGC) "$(INSTALLED)/lib/gleaner/libgc.so.1"
	install -m 644 $(CAPI_SHARED) "$(INSTALLED)/lib/$(CAPI_FILE)"
	ln -sf $(CAPI_FILE) "$(INSTALLED)/lib/$(CAPI_SONAME)"
	ln -sf $(CAPI_SONAME) "$(INSTALLED)/lib/libgleaner.so"
	install -m 644 $(CAPI_STATIC) "$(INSTALLED)/lib/libgleaner.a"
	install -m 644 $(CAPI_HEADERS) "$(INSTALLED)/include"
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' crates/capi/gleaner.pc.in \
		> "$(INSTALLED)/lib/pkgconfig/gleaner.pc"
	chmod 644 "$(INSTALLED)/lib/pkgconfig/gleaner.pc"
	for file in $(PAGE_FILES); do install -m 644 "$(PAGES)/$$file" "$(INSTALLED)/share/$$file"; done

# Files of an older version of the interface are removed, too; directories only if install made them and nothing is in them.
uninstall:
	made=$$(sort -ru "$(MADE)" 2> /dev/null || true); \
	rm -f "$(INSTALLED)/bin/gleaner" "$(INSTALLED)/lib/gleaner/libgc.so.1" \
		"$(INSTALLED)/lib/libgleaner.so" "$(INSTALLED)"/lib/libgleaner.so.* "$(INSTALLED)/lib/libgleaner.a" \
		$(CAPI_HEADERS:crates/capi/%="$(INSTALLED)/%") "$(INSTALLED)/lib/pkgconfig/gleaner.pc" \
		$(PAGE_FILES:%="$(INSTALLED)/share/%") "$(MADE)"; \
	while IFS= read -r directory; do \
		if [ -d "$$directory" ]; then rmdir --ignore-fail-on-non-empty "$$directory"; fi; \
	done <<< "$$made"$$'\n'"$(INSTALLED)/lib/gleaner"

# The package for Debian (docs/install.md).
deb: build
	scripts/install-packages.sh deb
	scripts/package-debian.sh

# Tools that are installed here, not optimised: they take seconds anyway.
RELEASE_TOOLS := target/release-tools
INSTALL_TOOL := $(CARGO) install --locked --quiet --debug --root $(RELEASE_TOOLS) --target-dir $(RELEASE_TOOLS)/build

# What is published of a version: scripts/release.sh says what that is.
CYCLONEDX := $(RELEASE_TOOLS)/bin/cargo-cyclonedx
$(CYCLONEDX):
	$(INSTALL_TOOL) cargo-cyclonedx@0.5.9

release: packages-release | $(CYCLONEDX)
	scripts/release.sh $(CYCLONEDX)

clean:
	$(CARGO) clean

# --- checks: nothing runs but tools ------------------------------------------

.PHONY: check check-format check-lints check-docs check-scripts check-layers check-crates check-rooms
.PHONY: check-papers check-results check-pages check-symbols check-system-calls generate
check: check-format check-lints check-docs check-scripts check-layers check-crates check-rooms check-papers check-results check-pages \
	check-symbols check-system-calls

# A change, in minutes: what is run again and again while one works.
.PHONY: check-quick
check-quick: packages-build
	python3 scripts/quick.py $(BASE)

check-format:
	$(CARGO) fmt --all -- --check

# All crates, where the command with its feature `wasm` is meant: alone, it would have its libraries compiled with fewer features, once more.
ALL_WASM := --workspace --features gleaner-cli/wasm

check-lints:
	$(CARGO) clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	$(CARGO) clippy $(CARGO_FLAGS) $(ALL_WASM) --all-targets -- -D warnings

check-docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(CARGO_FLAGS) --workspace --no-deps

check-scripts:
	for script in scripts/*.sh tests/*.sh tests/*/*.sh .ci/run; do bash -n "$$script"; done
	for script in postinst prerm gleaner-libgc-divert; do sh -n packaging/debian/$$script; done
	python3 scripts/tally.py --self-test
	python3 scripts/steps.py --self-test
	python3 scripts/symbols.py --self-test
	python3 scripts/rooms.py --self-test
	python3 scripts/papers.py --self-test
	python3 scripts/results.py --self-test
	python3 scripts/book.py --self-test
	python3 scripts/system_calls.py --self-test
	python3 scripts/mutants.py --self-test
	python3 scripts/mutants.py check
	python3 scripts/check_pages.py --self-test
	python3 scripts/commands.py --self-test
	python3 scripts/quick.py --self-test
	python3 scripts/experiments.py --self-test
	python3 scripts/crates.py --self-test
	python3 scripts/licences.py --self-test

check-layers:
	python3 scripts/check_layers.py

check-crates:
	python3 scripts/crates.py check

check-rooms:
	python3 scripts/rooms.py check

check-papers:
	python3 scripts/papers.py check

check-results:
	python3 scripts/results.py check

check-pages:
	python3 scripts/check_pages.py

check-symbols: build
	python3 scripts/symbols.py check --lib $(LIBGC)

check-system-calls:
	python3 scripts/system_calls.py check

# The documents as a site, with search: target/book/index.html. Links that lead nowhere are failures.
MDBOOK := target/docs-tools/bin/mdbook
$(MDBOOK):
	$(CARGO) install --locked --root target/docs-tools mdbook@0.5.4 --no-default-features --features search

.PHONY: docs
docs: | $(MDBOOK)
	python3 scripts/book.py assemble
	$(MDBOOK) build --dest-dir $(CURDIR)/target/book target/book-source
	python3 scripts/book.py check

# The pages of docs/ that are written from something else.
generate: build
	$(GLEANER) options --markdown > target/options.md
	mv target/options.md docs/options.md
	python3 scripts/symbols.py generate
	python3 scripts/rooms.py generate
	python3 scripts/papers.py generate
	python3 scripts/results.py generate
	python3 scripts/system_calls.py generate

# --- tests -------------------------------------------------------------------

.PHONY: compile-tests test-rust test-rust-long test-alone test-loom test-loom-long test-conformance test-conformance-stock test-conformance-gleaner
# What the next one runs, without what it runs on.
compile-tests: packages-build
	$(CARGO) test $(CARGO_FLAGS) --workspace --no-run
	$(CARGO) test $(CARGO_FLAGS) --no-run --workspace $(ALONE)
	target/debug/examples/pages $(PAGES)
	$(if $(FOR_TESTS),mkdir -p $(dir $(BENCH)) && ln -f target/debug/gleaner-bench $(BENCH))

test-rust: build
	$(CARGO) test $(CARGO_FLAGS) --workspace --no-fail-fast
	$(CARGO) test $(CARGO_FLAGS) --no-fail-fast $(ALL_WASM) --test run

# All cases of the tests that run a part of theirs there.
test-rust-long: build
	GLEANER_LONG=1 $(CARGO) test $(CARGO_FLAGS) --no-fail-fast -p gleaner --test heap --test random
	GLEANER_LONG=1 $(CARGO) test $(CARGO_FLAGS) --no-fail-fast -p gleaner-wasm --test random
	GLEANER_LONG=1 $(CARGO) test $(CARGO_FLAGS) --no-fail-fast -p gleaner-plans --test differential
	$(CARGO) test $(CARGO_FLAGS) -p gleaner-bench --test accesses -- --ignored of_what_is_shipped

# As if the crates were published: each is compiled from its package. And what is said of those that they need: licences, versions, where they come from.
DENY := $(RELEASE_TOOLS)/bin/cargo-deny
$(DENY):
	$(INSTALL_TOOL) cargo-deny@0.20.2

# The crates as they are published: a copy of the tree, whose manifests say where the sources lie, which the publisher knows.
PUBLISHED := target/publish
PUBLISH := cd $(PUBLISHED) && $(CARGO) publish --workspace --allow-dirty $(CARGO_FLAGS)
.PHONY: publish published-tree
published-tree:
	case "$(REPOSITORY)" in https://?*) ;; *) echo "make publish: where do the sources lie? REPOSITORY=https://..." >&2; exit 2;; esac
	rm -rf $(PUBLISHED); mkdir -p $(PUBLISHED)
	git ls-files -z | tar --null --files-from=- --create | tar --extract --directory $(PUBLISHED)
	sed -i '/^license\.workspace/a repository = "$(REPOSITORY)"' $(PUBLISHED)/crates/*/Cargo.toml

publish: published-tree
	$(PUBLISH)

.PHONY: test-crates test-semver test-oldest
test-crates: REPOSITORY ?= https://example.org/gleaner
test-crates: packages-build published-tree | $(DENY)
	$(PUBLISH) --dry-run
	$(CARGO) metadata --no-deps --format-version 1 $(CARGO_FLAGS) --manifest-path $(PUBLISHED)/Cargo.toml | python3 -c 'import json, sys; \
		lacking = [crate["name"] for crate in json.load(sys.stdin)["packages"] if crate["publish"] is None and crate["repository"] != sys.argv[1]]; \
		sys.exit(f"make test-crates: these do not say where their sources lie: {lacking}" if lacking else 0)' $(REPOSITORY)
	$(DENY) $(CARGO_FLAGS) check licenses bans sources

# The interfaces that docs/stability.md promises to keep, against those of the last version, which a tag vVERSION names.
KEEP_INTERFACE := gleaner gleaner-eventlog gleaner-heapgraph
SEMVER := $(RELEASE_TOOLS)/bin/cargo-semver-checks
$(SEMVER):
	$(INSTALL_TOOL) --no-default-features cargo-semver-checks@0.51.0

test-semver: packages-build
	tag=$$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2> /dev/null || true); \
	if [ -z "$$tag" ]; then echo "make test-semver: nothing is compared, since no tag vVERSION of an earlier version leads here"; exit 0; fi; \
	$(MAKE) $(SEMVER); \
	rm -rf target/semver; mkdir -p target/semver/$$tag; \
	git archive $$tag | tar --extract --directory target/semver/$$tag; \
	$(SEMVER) semver-checks --baseline-root target/semver/$$tag $(KEEP_INTERFACE:%=--package %)

# What `make release` makes, in two folders.
.PHONY: test-release
test-release: packages-test | $(CYCLONEDX)
	tests/package/release.sh $(CYCLONEDX)

# The oldest compiler that Cargo.toml of the workspace names.
OLDEST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1.0/p' Cargo.toml)
test-oldest: packages-build
	rustup toolchain install --profile minimal $(OLDEST)
	cargo +$(OLDEST) check $(CARGO_FLAGS) --workspace $(NEWER) --target-dir target/oldest

# Tests that measure, or that wait for what the placer sees: nothing else is to run beside them.
ALONE := --test place --test place_auto --test place_found --test place_sees
test-alone: build
	$(CARGO) test $(CARGO_FLAGS) --no-fail-fast --workspace $(ALONE)
	$(CARGO) test $(CARGO_FLAGS) --workspace --test place -- --ignored measured_alone

# The models of the concurrent protocols, in the crates that have some: in unit tests, and in files that say so in their first lines.
LOOM := RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
	$(CARGO) test $(CARGO_FLAGS) --release --target-dir target/loom
test-loom:
	crates=(); \
	for manifest in $$(grep -l '^loom\b' crates/*/Cargo.toml); do \
		crates+=(-p "gleaner-$$(basename "$$(dirname "$$manifest")")"); \
	done; \
	tests=(); \
	for file in $$(grep -lP '^#!\[cfg\(.*(?<!not\()\bloom\b' crates/*/tests/*.rs crates/*/tests/*/main.rs); do \
		name=$${file%/main.rs}; tests+=(--test "$$(basename "$$name" .rs)"); \
	done; \
	$(LOOM) --no-fail-fast --lib "$${tests[@]}" "$${crates[@]}"

# The largest models: with one preemption more, and with all programs.
test-loom-long: export GLEANER_LONG := 1
test-loom-long:
	$(LOOM) -p gleaner-work --test models crew_
	$(LOOM) -p gleaner-plans --test loom_steps

# The project's own breakages (docs/mutants.md): all, a few, and those that cargo-mutants makes up.
.PHONY: test-mutants test-mutants-short test-mutants-pure
test-mutants: packages-test
	status=0; python3 scripts/mutants.py run --keep-caught || status=$$?; \
	python3 scripts/mutants.py report; exit $$status

test-mutants-short:
	python3 scripts/mutants.py run --short

test-mutants-pure:
	$(CARGO) mutants --version >/dev/null || $(CARGO) install --locked cargo-mutants
	$(CARGO) mutants --output target/mutants-pure

# Undefined behaviour, by the interpreter Miri, in what it can run (HACKING.md). It needs a nightly compiler, so it is
# no part of `make test`.
.PHONY: test-miri
test-miri: export MIRIFLAGS := -Zmiri-permissive-provenance
test-miri:
	$(CARGO) +nightly miri test $(CARGO_FLAGS) -p gleaner-base --lib -- events::line options
	$(CARGO) +nightly miri test $(CARGO_FLAGS) -p gleaner-mem --lib -- header::tests slot::tests shared_bytes::tests

test-conformance: test-conformance-stock test-conformance-gleaner

test-conformance-stock: packages-build
	$(CONFORMANCE)

test-conformance-gleaner: build
	GLEANER=1 $(CONFORMANCE) --lib $(LIBGC)
	GLEANER=1 $(CONFORMANCE) --lib $(LIBGC) --opt thread-lists=off --opt generations=none \
		alloc badinput lists marked_cells threads

# Random programs on the precise heap, as many as SEEDS has (docs/random.md).
SEEDS ?= 0..10_000
.PHONY: random random-wasm
random: build
	$(BENCH) random --seeds $(SEEDS)

# Random modules on gleaner-wasm, wasmtime and V8, as many as SEEDS has (docs/wasm.md).
random-wasm: rivals-wasmtime rivals-node
	RIVALS="$(CURDIR)/$(RIVALS)/wasmtime $(CURDIR)/$(RIVALS)/node" SEEDS=$(SEEDS) \
		$(CARGO) test $(CARGO_FLAGS) --profile random -p gleaner-wasm --test random -- --nocapture

# libFuzzer on the stable compiler. The target is named so that build scripts are not instrumented, too.
FUZZ_SECONDS ?= 600
FUZZ_TARGET := x86_64-unknown-linux-gnu
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing
.PHONY: fuzz fuzz-wasm
fuzz: FUZZED := programs
fuzz: FUZZ_SEEDS := $(wildcard fuzz/seeds/programs/*)
fuzz-wasm: FUZZED := modules
fuzz-wasm: FUZZ_OPTIONS := --features wasm
fuzz-wasm: FUZZ_SEEDS := $(wildcard crates/wasm/tests/modules/text/*.wasm) crates/wasm/tests/modules/kotlin/uncaught.wasm
fuzz fuzz-wasm: packages-build
	RUSTFLAGS="$(FUZZ_FLAGS)" CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
		$(CARGO) build $(CARGO_FLAGS) --release --manifest-path fuzz/Cargo.toml --bin $(FUZZED) $(FUZZ_OPTIONS) \
		--target-dir target/fuzz --target $(FUZZ_TARGET)
	mkdir -p target/fuzz-corpus/$(FUZZED) target/fuzz-finds
	cp $(FUZZ_SEEDS) target/fuzz-corpus/$(FUZZED)
	target/fuzz/$(FUZZ_TARGET)/release/$(FUZZED) target/fuzz-corpus/$(FUZZED) \
		-artifact_prefix=target/fuzz-finds/ -len_control=0 -max_len=$(if $(filter modules,$(FUZZED)),10000,4000) -max_total_time=$(FUZZ_SECONDS)

.PHONY: test-clients test-clients-default test-clients-stress test-stress test-stress-long test-threads
.PHONY: test-singlestep test-singlestep-long
test-clients: test-clients-default test-clients-stress

test-clients-default: build
	$(BENCH) clients --all --size ci --unoptimised

# Each client collects as often as its entry in clients.toml says: at every
# allocation, where that is a matter of seconds.
test-clients-stress: build
	$(BENCH) clients --all --size tiny --pressure --least-collections 1000

test-stress: build
	GLEANER=1 $(CONFORMANCE) --lib $(LIBGC) --opt $(PRESSURE)$(STRESS)

test-stress-long:
	$(MAKE) test-stress STRESS=100

# Collections that keep marks and marking in steps: with a limit that is soon reached, with the verifier, and at every so
# many allocations.
.PHONY: test-generations test-generations-long test-clients-generations test-clients-generations-long
LITTLE_TIME := GC_PAUSE_TIME_TARGET=1
test-generations: build
	GLEANER=1 $(CONFORMANCE) --lib $(LIBGC) --opt generations=sticky
	$(LITTLE_TIME) GLEANER=1 $(CONFORMANCE) --lib $(LIBGC) --opt generations=incremental \
		--opt verify=edges --opt poison=on
	$(LITTLE_TIME) GLEANER=1 $(CONFORMANCE) --lib $(LIBGC) --opt generations=incremental \
		--opt cycle-helper=on --opt markers=2 --opt verify=edges --opt poison=on finalize kinds steps

# The verifier only takes time, and it sees what the next run does not.
test-generations-long: build
	$(LITTLE_TIME) GLEANER=1 $(CONFORMANCE) --lib $(LIBGC) --opt generations=incremental
	$(LITTLE_TIME) GLEANER=1 $(CONFORMANCE) --lib $(LIBGC) --opt generations=incremental --opt cycle-helper=on \
		--opt verify=edges --opt poison=on

# Idle time wherever a program waits for 20 ms, in a stop and in the middle of a cycle of steps.
.PHONY: test-idle
IDLE := --opt idle=collect@20ms --opt verify=edges --opt poison=on
test-idle: build
	GLEANER=1 $(CONFORMANCE) --lib $(LIBGC) $(IDLE)
	$(LITTLE_TIME) GLEANER=1 $(CONFORMANCE) --lib $(LIBGC) $(IDLE) --opt generations=incremental

test-clients-generations: build
	$(BENCH) clients --all --size ci --unoptimised --opt generations=incremental --env $(LITTLE_TIME)

test-clients-generations-long: build
	$(BENCH) clients --all --size tiny --pressure --opt generations=incremental --env $(LITTLE_TIME)

# More threads than processors, with marking threads beside them.
test-threads: build
	$(BENCH) clients --all --only mt_gc_bench-32 --size ci --opt markers=4
	$(BENCH) clients --all --only mt_gc_bench-32 --size tiny --pressure --opt markers=4 \
		--least-collections 1000

# What a program gets under ulimit -v, beside stock libgc.
.PHONY: test-limits test-limits-long
test-limits: build
	tests/limits/run.sh --quiet --lib $(LIBGC)

# Gigabytes live: ten of memory are wanted, and minutes.
.PHONY: test-wasm-large
test-wasm-large: packages-build
	$(CARGO) build $(CARGO_FLAGS) --release -p gleaner-cli --features wasm
	tests/wasm/large.sh $(GLEANER)

test-limits-long: build
	tests/limits/run.sh --long --lib $(LIBGC)

test-singlestep: build
	tests/singlestep/run.sh --quiet --lib $(LIBGC)

test-singlestep-long: build
	tests/singlestep/run.sh --quiet --long --lib $(LIBGC)

# The C interface of the precise heap, and the example that embeds it.
# The tests of Boehm's collector itself. Its source is fetched by apt, once.
.PHONY: test-bdwgc test-bdwgc-long
test-bdwgc: build
	tests/bdwgc/run.sh --quiet --lib $(LIBGC)
	$(LITTLE_TIME) tests/bdwgc/run.sh --quiet --lib $(LIBGC) --opt generations=sticky --opt generations=incremental

test-bdwgc-long: build
	tests/bdwgc/run.sh --quiet --lib $(LIBGC) --opt "" --opt markers=2 --opt sweep=eager,generations=none \
		--opt $(PRESSURE)20000

# The commands that the pages show.
.PHONY: test-commands test-commands-long
test-commands: build $(LAB_VENV)/made
	scripts/commands.py run

test-commands-long: build $(LAB_VENV)/made
	scripts/commands.py run --long

.PHONY: test-capi
test-capi: build
	tests/capi/run.sh

# The native door for small programs (docs/embedding.md, "A small program"): without 4-byte references, and optimised for
# size. The compiler that builds the project links the standard library as it is. A nightly one compiles it as well, which
# leaves out what prints backtraces.
EMBED := build $(CARGO_FLAGS) --profile embed -p gleaner-capi --no-default-features
EMBED_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
.PHONY: embed embed-stable test-embed
embed-stable:
	$(CARGO) $(EMBED)

embed:
	RUSTFLAGS="-C force-unwind-tables=no" $(CARGO) +nightly $(EMBED) --target $(EMBED_HOST) \
		-Z build-std=std,panic_abort -Z build-std-features=optimize_for_size

test-embed: embed embed-stable
	tests/capi/small.sh target/$(EMBED_HOST)/embed/libgleaner_capi.a 550000 target/embed/libgleaner_capi.a 850000

# What is installed: manual pages, completion, the Debian package in a root of its own.
.PHONY: test-package
test-package: build
	tests/package/run.sh

# Memory nodes, as QEMU makes them up: four with two processors each, and one of each kind that lacks something; eight
# with six.
# Programs of Debian's packages that depend on libgc1.
.PHONY: test-debian test-debian-long test-distros packages-debian
test-debian: build
	tests/debian/run.sh --quiet --small --opt "" --opt generations=incremental --opt $(PRESSURE)20000

test-debian-long: packages-debian build
	tests/debian/run.sh --opt "" --opt generations=incremental --opt markers=2 --opt heap-sizing=balanced --opt $(PRESSURE)1000

# The same on Debian 13 and unstable, with their own Guile, Nix, Crystal, ECL and more: root, and two gigabytes.
test-distros: packages-distros build
	tests/distros/run.sh

# On 64-bit Arm, emulated program by program (docs/arm.md).
.PHONY: test-arm64
test-arm64: packages-arm64
	rustup target add aarch64-unknown-linux-gnu
	tests/arm64/run.sh

.PHONY: test-qemu test-qemu-long
test-qemu: packages-qemu
	tests/qemu/run.sh ring:4x2 uneven

test-qemu-long: packages-qemu
	tests/qemu/run.sh ring:2x4 ring:8x6

.PHONY: test-conformance-long test-clients-long test-clients-every test-soak test-soak-storm test-soak-workers
test-conformance-long: build
	CONFORMANCE_LONG=1 GLEANER=1 $(CONFORMANCE) --lib $(LIBGC)

test-clients-long: build
	$(BENCH) clients --all --size full

# A collection at every allocation, on the smallest inputs.
test-clients-every: build
	$(BENCH) clients --all --size tiny --limit 7200 --opt $(PRESSURE)1

# Each client, and a storm of threads, signals, forks and libraries, for so many minutes.
SOAK_MINUTES ?= 60

test-soak: build
	$(BENCH) soak --all --limit 7200 --minutes $(SOAK_MINUTES)

test-soak-storm: build
	CONFORMANCE_LONG=1 CONFORMANCE_WATCHDOG=$$(($(SOAK_MINUTES) * 6 + 60)) SOAK_MINUTES=$(SOAK_MINUTES) GLEANER=1 \
		$(CONFORMANCE) --lib $(LIBGC) --opt verify=edges,poison=on soak

# 48 workers on however few processors collect a heap of 1 MB.
test-soak-workers:
	GLEANER_COLLECTIONS=100000 $(CARGO) test $(CARGO_FLAGS) --release -p gleaner --test many_workers

# --- the lab -----------------------------------------------------------------

# Exactly what the lock file names, and the lab itself, where it lies.
$(LAB_VENV)/made: lab/requirements.lock lab/pyproject.toml
	scripts/install-packages.sh lab
	rm -rf $(LAB_VENV)
	python3 -m venv $(LAB_VENV)
	$(LAB_VENV)/bin/pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r lab/requirements.lock
	$(LAB_VENV)/bin/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable lab
	touch $@

# The lab also runs where it is not a part of this tree, and outside of it.
LISTS_INSTALLED := import sys, gleaner_lab.start; assert 'installed' in gleaner_lab.__file__; \
	sys.argv[1:] = ['list']; sys.exit(gleaner_lab.start.main())

.PHONY: lab check-lab test-lab test-experiments lock-lab
lab: build $(LAB_VENV)/made
	$(LAB) list

check-lab: $(LAB_VENV)/made
	$(LAB_VENV)/bin/ruff check --quiet lab
	$(LAB_VENV)/bin/ruff format --quiet --check lab
	rm -rf target/lab/installed
	$(LAB_VENV)/bin/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
		--target target/lab/installed ./lab
	rm -rf lab/build
	for place in docs /; do (cd $$place && PYTHONPATH=$(CURDIR)/target/lab/installed \
		$(CURDIR)/$(LAB_VENV)/bin/python -P -c "$(LISTS_INSTALLED)" > /dev/null) || exit 1; done

test-lab: build $(LAB_VENV)/made
	cd lab && ../$(LAB_VENV)/bin/python -m pytest -q --durations=10

# Every experiment on tiny inputs, with one round.
test-experiments: build $(LAB_VENV)/made
	scripts/experiments.py

# Newer versions of what the lab needs.
lock-lab: $(LAB_VENV)/made
	$(LAB_VENV)/bin/pip install --quiet pip-tools
	cd lab && ../$(LAB_VENV)/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe \
		--no-emit-index-url --no-emit-trusted-host --no-annotate --no-header --strip-extras \
		--extra test --extra build --output-file requirements.lock pyproject.toml

# --- measuring ---------------------------------------------------------------

# A run that was stopped goes on; remove target/lab/bench to measure anew.
# An earlier commit, built beside this one: what is measured then is one build against the other. What was built of
# another goes first, so that a failure leaves nothing to measure; files get the time of now, by which cargo knows what
# it has to compile; and the commit stands beside the programs, where the lab finds it.
BEFORE := target/before
BEFORE_BENCHES := bench-before-native bench-before-clients
.PHONY: before $(BEFORE_BENCHES)
before: packages-build
	@test -n "$(COMMIT)" || { echo "make before: COMMIT is not set; name one, as in make before COMMIT=HEAD~1" >&2; exit 2; }
	rm -rf $(BEFORE)/tree
	if [ -d $(BEFORE)/release ]; then find $(BEFORE)/release -maxdepth 1 -type f -delete; fi
	commit=$$(git rev-parse --verify --quiet '$(COMMIT)^{commit}') \
		|| { echo "make before: '$(COMMIT)' names no commit" >&2; exit 2; }; \
	mkdir -p $(BEFORE)/tree; \
	git archive $$commit | tar --extract --touch --directory $(BEFORE)/tree; \
	(cd $(BEFORE)/tree && CARGO_TARGET_DIR=$(CURDIR)/$(BEFORE) $(CARGO) build $(CARGO_FLAGS) --release --workspace); \
	echo $$commit > $(BEFORE)/release/commit

bench-before-native bench-before-clients: packages-test

.PHONY: bench $(BENCH_EXPERIMENTS:%=bench-%) $(RIVAL_BENCHES)
bench: $(BENCH_EXPERIMENTS:%=bench-%)

$(BENCH_EXPERIMENTS:%=bench-%): packages-test
bench-rivals bench-rivals-programs bench-rivals-heaps bench-rivals-steady: rivals
bench-zeroing-hotspot: rivals-hotspot
bench-wasm-rivals: rivals-wasm
# Loops of a few instructions take half as long again where they happen to cross a line of code: both versions of each
# loop begin at a line of their own here.
ALIGNED := target/aligned
bench-arrays-cursors: BENCH_OF := --bench $(ALIGNED)/release/gleaner-bench
bench-arrays-cursors: | $(ALIGNED)
.PHONY: $(ALIGNED)
$(ALIGNED): packages-build
	RUSTFLAGS="-C llvm-args=-x86-experimental-pref-innermost-loop-alignment=6" \
		$(CARGO) build $(CARGO_FLAGS) --release -p gleaner-bench --target-dir $@
$(BENCH_EXPERIMENTS:%=bench-%) $(RIVAL_BENCHES) $(BEFORE_BENCHES): bench-%: build $(LAB_VENV)/made
	mkdir -p docs/results/tables target/lab/bench
	out=target/lab/bench/$*; status=0; \
	if [ -d "$$out" ]; then $(LAB) resume "$$out" || status=$$?; \
	else $(LAB) run $* $(BENCH_OF) --out "$$out" || status=$$?; fi; \
	[ $$status -le 1 ] || [ $$status -eq 3 ]
	$(LAB) report target/lab/bench/$* --markdown docs/results/tables/$*.md
	if [ $* = naps-paper ]; then \
		$(LAB) findings target/lab/bench/$* --markdown docs/results/tables/naps-findings.md; fi

# --- the rivals of the precise heap ------------------------------------------

RIVALS := target/rivals
# Where Go's own packages put it, if it is not on the PATH.
GO ?= $(or $(shell command -v go),/usr/local/go/bin/go)
GO_BUILD := GOCACHE=$(CURDIR)/$(RIVALS)/go-cache GOTOOLCHAIN=local $(GO)
MMTK_CARGO := cd rivals/mmtk && CARGO_TARGET_DIR=$(CURDIR)/$(RIVALS)/cargo $(CARGO)
WASMTIME_CARGO := cd rivals/wasm/wasmtime && CARGO_TARGET_DIR=$(CURDIR)/$(RIVALS)/cargo $(CARGO)

.PHONY: rivals rivals-mmtk rivals-hotspot rivals-java-real rivals-hotspot-25 rivals-c rivals-go check-rivals test-rivals
.PHONY: rivals-wasm rivals-wasmtime rivals-node check-rivals-wasm test-rivals-wasm
rivals: rivals-mmtk rivals-hotspot rivals-hotspot-25 rivals-c rivals-go

# The names of its functions then tell their plans apart.
rivals-mmtk: packages-rivals
	$(MMTK_CARGO) rustc --locked --release -- -C symbol-mangling-version=v0
	install -m 755 $(RIVALS)/cargo/release/rival-mmtk $(RIVALS)/mmtk

rivals-hotspot: packages-rivals
	mkdir -p $(RIVALS)/java
	javac -Xlint:all -Werror --release 17 -d $(RIVALS)/java rivals/java/*.java
	install -m 755 rivals/java/hotspot $(RIVALS)/hotspot

# HotSpot of Java 25, which is a package of Python's.
rivals-hotspot-25: rivals-hotspot $(RIVALS)/java25/made
	install -m 755 rivals/java/hotspot $(RIVALS)/hotspot-25

$(RIVALS)/java25/made: rivals/java/requirements.lock
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

# Not among `rivals`: Maven fetches 70 MB of libraries for these, once, by its own settings.
rivals-java-real: rivals-hotspot
	command -v mvn > /dev/null || { echo "make rivals-java-real: mvn is needed (Debian's package maven)" >&2; exit 2; }
	mkdir -p $(RIVALS)/real/classes $(RIVALS)/real/sources
	mvn --batch-mode --quiet --strict-checksums --file rivals/java/real/pom.xml dependency:copy-dependencies \
		-DoutputDirectory=$(CURDIR)/$(RIVALS)/real/lib
	javac -Xlint:all,-classfile,-processing,-path -Werror --release 17 -proc:none \
		-cp "$(RIVALS)/java:$(RIVALS)/real/lib/*" -d $(RIVALS)/real/classes rivals/java/real/*.java
	install -m 644 rivals/java/*.java $(RIVALS)/real/sources
	install -m 755 rivals/java/hotspot $(RIVALS)/java-real

rivals-c: packages-rivals
	$(MAKE) -C rivals/c OUT=$(CURDIR)/$(RIVALS)

rivals-go: packages-rivals
	mkdir -p $(RIVALS)
	cd rivals/go && $(GO_BUILD) build -buildvcs=false -o $(CURDIR)/$(RIVALS)/go .

# Not among `rivals`, since it compiles two code generators: what runs WebAssembly modules, the command with its feature
# `wasm` included, and the modules.
rivals-wasm: rivals-wasmtime rivals-node
	$(CARGO) build $(CARGO_FLAGS) --release -p gleaner-cli --features wasm
	install -m 755 $(GLEANER) $(RIVALS)/gleaner
	for language in kotlin ocaml; do \
		install -D -m 644 -t $(RIVALS)/wasm/$$language rivals/wasm/programs/$$language/*.wasm || exit 1; done

rivals-wasmtime: packages-build
	$(WASMTIME_CARGO) build --locked --release
	install -m 755 $(RIVALS)/cargo/release/rival-wasmtime $(RIVALS)/wasmtime

rivals-node: $(RIVALS)/node26/made
	install -m 644 -t $(RIVALS)/node26 rivals/wasm/node/run.cjs rivals/wasm/node/outcomes.cjs
	install -m 755 rivals/wasm/node/node $(RIVALS)/node

$(RIVALS)/node26/made: rivals/wasm/node/package.json rivals/wasm/node/package-lock.json
	command -v npm > /dev/null || { echo "make rivals-node: npm is needed (Debian's package npm)" >&2; exit 2; }
	rm -rf $(@D)
	mkdir -p $(@D)
	cp $^ $(@D)
	cd $(@D) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

check-rivals-wasm: rivals-wasm
	$(WASMTIME_CARGO) fmt -- --check
	$(WASMTIME_CARGO) clippy --locked --release -- -D warnings
	bash -n rivals/wasm/node/node

# Each module prints the same on all machines.
test-rivals-wasm: rivals-wasm
	python3 rivals/wasm/compare.py

check-rivals: rivals
	$(MMTK_CARGO) fmt -- --check
	$(MMTK_CARGO) clippy --locked --release -- -D warnings
	cd rivals/go && $(GO_BUILD) vet .
	unformatted=$$($(dir $(realpath $(GO)))gofmt -l rivals/go); [ -z "$$unformatted" ] || { echo "not as gofmt has it: $$unformatted" >&2; exit 1; }
	bash -n rivals/java/hotspot

# Each rival's results are those of gleaner-bench native.
test-rivals: build rivals
	python3 rivals/compare.py

# --- help --------------------------------------------------------------------

.PHONY: help
help:
	@sed -n 's/^#| \{0,1\}//p' Makefile

#| Gleaner: a garbage collector; its libgc.so.1 replaces Boehm's under programs
#| that are already built.
#|
#| Start here
#|   make demo      install what is missing, build, and run one Scheme program
#|                  under stock libgc and under Gleaner in turns, until it is clear
#|                  which is faster, for two minutes at most; ends in a paragraph
#|   make test      install what is missing, then every check and test; the last
#|                  line is "N passed, N failed", logs lie in target/steps/
#|
#| Use it
#|   make build     the library and the programs, into target/release/
#|   make install   bin/gleaner and lib/gleaner/libgc.so.1 into PREFIX, which is
#|                  /usr/local unless given: make install PREFIX=$HOME/.local;
#|                  for embedders also the library libgleaner, shared and static,
#|                  gleaner.h, and gleaner.pc for pkg-config; manual pages, and
#|                  completion for bash, zsh and fish. make uninstall with the
#|                  same PREFIX removes them, and the directories that were made
#|   make deb       target/debian/gleaner_VERSION_amd64.deb, a package of the same
#|                  for Debian 12 (docs/install.md)
#|   make release   what a version is published as, into target/dist: stripped binaries, what
#|                  debuggers read, the package, sums, licences and crates (docs/install.md);
#|                  installs cargo-cyclonedx under target/
#|   make embed     a small libgleaner_capi.a for small programs; needs a nightly
#|                  compiler; embed-stable does not, and makes it larger
#|                  (docs/embedding.md)
#|   target/release/gleaner exec -- guile script.scm
#|
#| Work on it (HACKING.md tells which one finds what)
#|   make check-quick       a change, in minutes: lints and unit tests of what it
#|                          touches, a program behind each door (BASE=main)
#|   make check             all that runs only tools: check-format check-lints
#|                          check-docs check-scripts check-layers check-crates
#|                          check-rooms check-papers check-results check-pages
#|                          check-symbols check-system-calls
#|   make generate          writes the pages of docs/ that come from tables and code,
#|                          and the pictures of docs/results/
#|   make docs              the documents as a site with search, target/book/index.html;
#|                          installs mdBook under target/, checks every link
#|   make test-rust         unit and integration tests
#|   make test-alone        those of them that measure: nothing is to run beside them
#|   make check-lab         the lab's lints and format
#|   make test-lab          the lab's statistics, runs, reports in a browser
#|   make test-experiments  every experiment of the lab on tiny inputs, one round
#|   make test-loom         every interleaving of the concurrent protocols
#|   make test-miri         undefined behaviour where Miri can run; needs a nightly compiler
#|   make test-conformance  the C suite on stock libgc, then on Gleaner
#|   make test-generations  the same suite with marks that are kept and steps
#|   make test-clients-generations  all clients with steps; test-clients-generations-long: under pressure
#|   make test-idle         the same suite with collections and memory given back in every wait of 20 ms
#|   make test-clients      Guile, Nix, ECL, w3m, LilyPond, Crystal: output as under stock,
#|                          with the default options, then under pressure
#|   make test-stress       the C suite under pressure: a collection at every
#|                          STRESS-th allocation (400 unless given; test-stress-long: 100), verifier
#|                          and poison on
#|   make test-threads      32 threads, also under pressure
#|   make test-limits       what a program gets under ulimit -v, beside stock libgc;
#|                          test-limits-long: under more limits, of more sizes
#|   make test-wasm-large   WebAssembly programs of which 2.5 and 5 GB live; it takes
#|                          minutes, and 9 GB of memory
#|   make test-singlestep   a collection at every instruction of the allocation paths
#|   make test-bdwgc        the sixteen tests of Boehm's collector itself, whose source
#|                          apt fetches; test-bdwgc-long: with two markers, with
#|                          eager sweeping and under pressure, too
#|   make test-debian       programs of Debian's packages that depend on libgc1, output as
#|                          under stock; test-debian-long: the large ones, too
#|   make test-distros      the clients on Debian 13 and unstable, in systems that
#|                          debootstrap makes (root)
#|   make test-commands     the commands that the pages show; test-commands-long: those
#|                          that take long, too
#|   make test-capi         gleaner.h from C and C++, the example Lisp, and what
#|                          make install leaves, by pkg-config
#|   make test-embed        how large a small program is with the libraries of make embed
#|                          and make embed-stable; needs a nightly compiler
#|   make test-crates       a publication of the crates that stops before it is one, each
#|                          compiled from its package, and the licences and origins of
#|                          what they need; installs cargo-deny under target/
#|   make test-semver       interfaces of crates that break a promise to the last tag
#|                          vVERSION, if there is one; installs cargo-semver-checks
#|   make test-release      that make release makes the same bytes in two folders, and what they are
#|   make test-oldest       all crates by the oldest Rust that they allow; rustup fetches it
#|   make publish REPOSITORY=https://...  publishes the crates, which then say that their sources lie there
#|   make test-package      the Debian package, manual pages and completion
#|   make test-qemu         what the kernel does on machines with several memory nodes,
#|                          in QEMU; test-qemu-long: on others, one with 8 nodes and 48
#|                          processors
#|   make test-mutants      breaks the collector on purpose, and wants a
#|                          test to fail each time (docs/mutants.md); takes hours.
#|                          test-mutants-short does six of them,
#|                          test-mutants-pure what cargo-mutants makes up
#|   make fuzz              libFuzzer makes up programs, FUZZ_SECONDS long (fuzz/);
#|                          fuzz-wasm: WebAssembly modules
#|   make random SEEDS=A..B random programs on the precise heap, all policies
#|                          mixed, against an oracle (docs/random.md)
#|   make random-wasm SEEDS=A..B random WebAssembly modules on gleaner-wasm,
#|                          wasmtime and V8 (docs/wasm.md)
#|   make test-long         what the pages show and the rivals do, other Debians,
#|                          10,000 forks, all clients at full size, small ones with
#|                          a collection at every allocation, 48 workers that
#|                          collect a small heap, and the two soaks: takes days
#|   make test-soak         each client for SOAK_MINUTES (60), under one set of
#|                          options after the other; test-soak-storm: a thousand
#|                          threads, signals, forks, libraries and a full heap
#|
#| Measure it (an idle machine, please)
#|   make lab       prepares the lab and lists its experiments (lab/README.md)
#|   make bench     against stock libgc at equal peak memory, the paper's Table 1,
#|                  time against heap size, and more: reports in target/lab/bench/,
#|                  tables in docs/results/tables/; takes hours, and goes on where it
#|                  was stopped. make bench-boehm-table1 runs one of them; also
#|                  libgc-clients, boehm-misses, prefetch-hint, minheap, precise-heap,
#|                  precise-heap-mutators, zeroing-paper, zeroing-micro,
#|                  zeroing-nursery, zeroing, naps-paper, naps-host,
#|                  naps-synchronisation (docs/numa.md), arrays, arrays-cursors,
#|                  arrays-optimisations, arrays-first-n, arrays-arraylets,
#|                  arrays-kinds, arrays-heaps, arrays-fragmentation,
#|                  arrays-pauses (docs/arrays.md), workers,
#|                  workers-tiny, workers-libgc, placement-programs (docs/placement.md)
#|   make before COMMIT=C   builds an earlier commit beside this one; then
#|                  make bench-before-native and bench-before-clients tell whether
#|                  workloads or programs became slower since
#|   make rivals    what the precise heap is compared with, into target/rivals/:
#|                  MMTk, HotSpot, libgc, Go, malloc, mimalloc (docs/rivals.md)
#|   make test-rivals       their results are those of gleaner-bench native
#|   make check-rivals      lints and format of rivals/
#|   make bench-rivals      runs the experiment; also bench-rivals-programs,
#|                          bench-rivals-heaps and bench-rivals-steady;
#|                          bench-zeroing-hotspot, which needs only rivals-hotspot
#|   make rivals-wasm       what WebAssembly modules are run on: wasmtime, Node, and
#|                          gleaner with run (docs/wasm.md); also test-rivals-wasm,
#|                          check-rivals-wasm and bench-wasm-rivals
