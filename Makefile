# The list of what a developer types; CI runs these targets and no others.
# Every target does its own set-up: Rust and Python 3 are all that must be there.

ONNXRUNTIME := 1.31.1
LIBTORCH_VERSION := 2.11.0
RUNTIME := .runtime
LIBRARY := $(RUNTIME)/libonnxruntime.so.$(ONNXRUNTIME)
TORCH := $(RUNTIME)/libtorch/torch
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARGO := cargo
# Tests and the program look beside themselves and in the project's folder; a target folder that
# lies elsewhere needs to be told.
export ORT_DYLIB_PATH := $(CURDIR)/$(LIBRARY)
# What builds `s2m-train` and what runs its tests; the programs find libtorch by themselves.
export LIBTORCH := $(CURDIR)/$(TORCH)
export LIBTORCH_CXX11_ABI := 1
WITH_TORCH := LD_LIBRARY_PATH="$(CURDIR)/$(TORCH)/lib:$(CURDIR)/$(RUNTIME)/libtorch/nvidia/cu13/lib"

.PHONY: demo test build train bench check fuzz format models clean

demo: build          ## draw from the embedded model, print a table, write demo/demo.png
	$(TARGET)/release/s2m demo --out demo

test: check $(LIBRARY) $(TORCH)   ## format, lints, all tests, doc tests
	$(WITH_TORCH) $(CARGO) test --release --workspace

build: $(LIBRARY)    ## leave the program at target/release/s2m, with ONNX Runtime beside it
	$(CARGO) build --release -p s2m-cli
	cp -u $(LIBRARY) $(TARGET)/release/

train: build $(TORCH)   ## leave the trainer at target/release/s2m-train, beside the program
	$(CARGO) build --release -p s2m-train

check: $(TORCH)      ## format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

bench: train         ## speed and memory, against PyTorch and a bare ONNX Runtime loop
	$(CARGO) build --release -p s2m-bench
	benches/run $(TARGET)/release

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

$(LIBRARY): tools/fetch-onnxruntime
	tools/fetch-onnxruntime $(ONNXRUNTIME) $(RUNTIME)
	touch $@

$(TORCH): tools/fetch-libtorch
	tools/fetch-libtorch $(LIBTORCH_VERSION) $(RUNTIME)/libtorch
	touch $@
