# The list of what a developer types; CI runs these targets and no others.
# Every target does its own set-up: Rust and Python 3 are all that must be there.

ONNXRUNTIME := 1.31.1
LIBTORCH_VERSION := 2.11.0
RUNTIME := .runtime
PLAYWRIGHT := 1.65.2
BROWSER := $(RUNTIME)/browser
CHROMIUM := $(wildcard /usr/bin/chromium)
NO_BROWSER := SKIPPED: the page was not tried in a browser
LIBRARY := $(RUNTIME)/libonnxruntime.so.$(ONNXRUNTIME)
TORCH := $(RUNTIME)/libtorch/torch
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARGO := cargo
# Tests and the program look beside themselves and in the project's folder; a target folder that
# lies elsewhere needs to be told.
export ORT_DYLIB_PATH := $(CURDIR)/$(LIBRARY)
# What builds `s2m-train` and what runs its tests; the programs find libtorch by themselves. Tests run side by side, where
# more threads of libtorch's own would wait for each other: with one the trainer's tests take half the time.
export LIBTORCH := $(CURDIR)/$(TORCH)
export LIBTORCH_CXX11_ABI := 1
WITH_TORCH := OMP_NUM_THREADS=1 LD_LIBRARY_PATH="$(CURDIR)/$(TORCH)/lib:$(CURDIR)/$(RUNTIME)/libtorch/nvidia/cu13/lib"

# Which packages to compile; `make test` takes all, so that programs and tests share what they compile.
PACKAGES :=

# Packages of Python that the wheel is built and tested with; nothing else of the project needs them.
PYTHON := $(RUNTIME)/python
WHEELS := $(TARGET)/wheels

.PHONY: browser demo test build train python python-test docs bench check licences fuzz format models clean

demo: build          ## draw from the embedded model, print a table, write demo/demo.png
	$(TARGET)/release/s2m demo --out demo

test: check $(LIBRARY) $(TORCH)   ## format, lints, all tests, doc tests, the page in Chromium where there is one, the Python package
	@$(if $(CHROMIUM),$(MAKE) $(BROWSER) || echo "$(NO_BROWSER): Playwright cannot be fetched",echo "$(NO_BROWSER): there is no /usr/bin/chromium")
	$(WITH_TORCH) $(CARGO) test --release --workspace
	$(MAKE) python-test PACKAGES=--workspace
	@$(if $(CHROMIUM),test -d $(BROWSER) || echo "$(NO_BROWSER): Playwright cannot be fetched",echo "$(NO_BROWSER): there is no /usr/bin/chromium")

build: $(LIBRARY)    ## leave the programs at target/release/s2m and s2m-reproduce, with ONNX Runtime beside them
	$(CARGO) build --release $(or $(PACKAGES),-p s2m-cli -p s2m-experiments)
	cp -u $(LIBRARY) $(TARGET)/release/

train: build $(TORCH)   ## leave the trainer at target/release/s2m-train, beside the program
	$(CARGO) build --release $(or $(PACKAGES),-p s2m-train)

python: train $(PYTHON)/tested   ## leave the wheel of the Python package in target/wheels
	mkdir -p python/src/s2m/bin
	strip -o python/src/s2m/bin/s2m $(TARGET)/release/s2m
	strip -o python/src/s2m/bin/s2m-reproduce $(TARGET)/release/s2m-reproduce
	strip -o python/src/s2m/bin/s2m-train $(TARGET)/release/s2m-train
	rm -rf $(WHEELS)
	cd python && ../$(PYTHON)/bin/maturin build -q --release --target-dir $(abspath $(TARGET)) -o $(abspath $(WHEELS))

python-test: python  ## the wheel in environments of its own: draws, PyTorch, Ray, notebooks, guides, types
	$(PYTHON)/bin/pip install -q --force-reinstall --no-deps $(WHEELS)/*.whl
	env -u ORT_DYLIB_PATH -u LIBTORCH_CXX11_ABI $(PYTHON)/bin/python -m pytest python/tests

docs: python         ## the site of the documents in target/site, every link checked
	$(PYTHON)/bin/pip install -q --force-reinstall --no-deps $(WHEELS)/*.whl
	$(PYTHON)/bin/python tools/site.py $(TARGET)/release/s2m target/pages
	$(CARGO) doc -q --release --no-deps -p s2m -p s2m-core -p s2m-model
	cp -r $(TARGET)/doc target/pages/rust
	NO_MKDOCS_2_WARNING=1 $(PYTHON)/bin/mkdocs build --strict

check: $(TORCH)      ## format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

licences:            ## licences and sources of all dependencies, by cargo-deny
	$(CARGO) deny --version > /dev/null 2>&1 || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources

bench: train         ## speed and memory, against PyTorch and a bare ONNX Runtime loop
	$(CARGO) build --release -p s2m-bench
	benches/run $(TARGET)/release

browser: $(LIBRARY) $(BROWSER)   ## the page of `s2m serve` in Chromium, with screenshots; needs /usr/bin/chromium
	$(CARGO) test --release -p s2m-serve --test server -- --nocapture browser

fuzz: $(LIBRARY) $(TORCH)   ## damaged files by the ten thousand; SEED=2 for others
	S2M_FUZZ_CASES=10000 S2M_FUZZ_SEED=$(or $(SEED),1) $(CARGO) test --release -p s2m --test mutations -- --nocapture
	S2M_FUZZ_CASES=10000 S2M_FUZZ_SEED=$(or $(SEED),1) $(CARGO) test --release -p s2m-cli --test program -- --nocapture damaged
	S2M_FUZZ_CASES=10000 S2M_FUZZ_SEED=$(or $(SEED),1) $(WITH_TORCH) $(CARGO) test --release -p s2m-train --test training -- --nocapture damaged_run

format:              ## format all code
	$(CARGO) fmt --all

models:              ## write the exact embedded models again, from their formulae
	$(CARGO) run --release -p s2m-testkit --bin exact-bundles crates/s2m/models

clean:
	rm -rf $(TARGET) $(RUNTIME) demo

$(PYTHON)/tested: python/tests/requirements.txt
	python3 -m venv --clear $(PYTHON)
	$(PYTHON)/bin/pip install -q -r python/tests/requirements.txt
	touch $@

$(LIBRARY): tools/fetch-onnxruntime
	tools/fetch-onnxruntime $(ONNXRUNTIME) $(RUNTIME)
	touch $@

$(TORCH): tools/fetch-libtorch
	tools/fetch-libtorch $(LIBTORCH_VERSION) $(RUNTIME)/libtorch
	touch $@

$(BROWSER):
	python3 -m venv $@
	$@/bin/pip install --quiet playwright==$(PLAYWRIGHT) || { rm -rf $@; false; }
