# The list of what a developer types; CI runs these targets and no others.
# Every target does its own set-up: Rust and Python 3 are all that must be there.

ONNXRUNTIME := 1.31.1
RUNTIME := .runtime
LIBRARY := $(RUNTIME)/libonnxruntime.so.$(ONNXRUNTIME)
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARGO := cargo
# Tests and the program look beside themselves and in the project's folder; a target folder that
# lies elsewhere needs to be told.
export ORT_DYLIB_PATH := $(CURDIR)/$(LIBRARY)

.PHONY: demo test build bench check format models clean

demo: build          ## draw from the embedded model, print a table, write demo/demo.png
	$(TARGET)/release/s2m demo --out demo

test: check $(LIBRARY)   ## format, lints, all tests, doc tests
	$(CARGO) test --release --workspace

build: $(LIBRARY)    ## leave the program at target/release/s2m, with ONNX Runtime beside it
	$(CARGO) build --release -p s2m-cli
	cp -u $(LIBRARY) $(TARGET)/release/

check:               ## format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

bench: build         ## speed and memory, against PyTorch and a bare ONNX Runtime loop
	$(CARGO) build --release -p s2m-bench
	benches/run $(TARGET)/release

format:              ## format all code
	$(CARGO) fmt --all

models:              ## write the exact embedded models again, from their formulae
	$(CARGO) run --release -p s2m-testkit --bin exact-bundles models

clean:
	rm -rf $(TARGET) $(RUNTIME) demo

$(LIBRARY): tools/fetch-onnxruntime
	tools/fetch-onnxruntime $(ONNXRUNTIME) $(RUNTIME)
	touch $@
