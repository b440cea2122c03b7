# Everything runs in .venv, which the first target creates: a machine needs Python >= 3.11 and make.
# PYTHON=python3.12 make test   another interpreter;   JOBS=4   test processes;   ARGS='-k relu'   pytest or script arguments.

PYTHON ?= python3
JOBS ?= 2
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help run test codegen check docs format sweeps opsets case-counts conformance extremes decompositions data-checks node-tests module-tests hf timm vision fuzz mutate fuzz-specs audit soak derive support bench bench-conversion bench-large bench-decode bench-training bench-autotune bench-rewrites bench-variants bench-cache bench-cuda bench-plots op-cost gpu clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

# timm and torchvision lie in a folder of their own: the kernels of torchvision's wheel do not load beside
# every build of torch, and libraries that find a torchvision in the environment import it.
# The stamp is written last, so an interrupted installation starts again.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "ortable needs Python 3.11 or newer, not " + sys.version.split()[0] + ": set PYTHON")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps --upgrade --target $(VENV)/vision timm torchvision
	@touch $@

run: $(READY)  ## train a small model through ONNX Runtime and print its graphs
	$(BIN)/python examples/train_diabetes.py $(ARGS)

test: $(READY)  ## the tests; heavy ones have targets of their own: sweeps, opsets, conformance
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(ARGS)

codegen: $(READY)  ## write generated/ from specs/ (only the files that change)
	$(BIN)/python -m ortablegen generate

check: $(READY)  ## generated/ is up to date; lint, format, types
	$(BIN)/python -m ortablegen check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)  ## the documentation as a site in build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build $(ARGS)

format: $(READY)  ## lay out the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sweeps: $(READY)  ## programs and models that others wrote, random graphs, several processes
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/sweeps tests/passes/rewrite tests/backend tests/exporter tests/debug tests/weights tests/faults tests/examples tests/vision --sweeps $(ARGS)

opsets: $(READY)  ## every sample call of every spec, at every opset, against eager
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/specs --opsets all $(ARGS)

case-counts: $(READY)  ## how many sample calls reach each case of an entry, for docs/operators.md
	$(BIN)/python -m tests.specs.reached

derive: $(READY)  ## samples derived from those of the specs, against eager (ARGS=--bounded: a rotating tenth)
	$(BIN)/python -m tests.derive --jobs $(JOBS) $(ARGS)

conformance: $(READY)  ## PyTorch's own operator tests against eager (ARGS=--bounded: the short run)
	$(BIN)/python -m tests.conformance --jobs $(JOBS) $(ARGS)

extremes: $(READY)  ## operators on integers at the ends of their range, in processes that may die (ARGS=--bounded)
	$(BIN)/python -m tests.suites.extremes --jobs $(JOBS) $(ARGS)

decompositions: $(READY)  ## torch's decompositions next to the operators that they stand for (ARGS=--bounded)
	$(BIN)/python -m tests.suites.decompositions --jobs $(JOBS) $(ARGS)

data-checks: $(READY)  ## what eager refuses of data, through the backend (ARGS=--bounded: the rows of the specs)
	$(BIN)/python -m tests.data_checks $(ARGS)

node-tests: $(READY)  ## ONNX's node tests through reader, rules, rewrites, writer (ARGS=--bounded: the short run)
	$(BIN)/python -m tests.suites.node_tests --jobs $(JOBS) $(ARGS)

module-tests: $(READY)  ## torch's modules, optimizers, custom and higher-order operators against eager (ARGS=--bounded)
	$(BIN)/python -m tests.suites.module_tests --jobs $(JOBS) $(ARGS)

hf: $(READY)  ## every model class of transformers, made small, exported, against eager (ARGS=--bounded)
	$(BIN)/python -m tests.hf --jobs $(JOBS) $(ARGS)

timm: $(READY)  ## a model of each module of timm, exported and compiled, against eager (ARGS=--bounded: the short run)
	$(BIN)/python -m tests.vision timm --jobs $(JOBS) $(ARGS)

vision: $(READY)  ## the architectures of torchvision, exported and compiled, against eager (ARGS=--bounded)
	$(BIN)/python -m tests.vision torchvision --jobs $(JOBS) $(ARGS)

soak: $(READY)  ## threads, calls, compilations, sizes, epochs: what is wrong, what grows (20 minutes)
	$(BIN)/python -W ignore -m tests.faults.soak $(ARGS)

fuzz: $(READY)  ## random programs of the specs' own samples, through every front door (ARGS='--count 1000')
	$(BIN)/python -m tests.fuzz --jobs $(JOBS) $(ARGS)

fuzz-specs: $(READY)  ## spec files and rewrites that are nearly right: taken, or refused by line (ARGS='--count 100000')
	$(BIN)/python -m tests.security.fuzz $(ARGS)

audit: $(READY)  ## known weaknesses of what is installed; asks the network
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(VENV)/audit/bin/pip-audit --path $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') $(ARGS)

mutate: $(READY)  ## faults put into the code on purpose, and whether tests notice each (ARGS=--bounded: a few)
	$(BIN)/python -m tests.mutate --jobs $(JOBS) $(ARGS)

support: $(READY)  ## the newest of everything, as pip installs it: wheel, documents, core tests (ARGS=--bounded)
	$(BIN)/python -m tests.support --jobs $(JOBS) $(ARGS)

bench: $(READY)  ## the backend: latency, compilation, call overhead, next to eager and inductor
	$(BIN)/python -m benchmarks.backend $(ARGS)

bench-conversion: $(READY)  ## conversion time, next to torch.onnx
	$(BIN)/python -m benchmarks.conversion $(ARGS)

bench-large: $(READY)  ## memory of the export of 3 GB of weights
	$(BIN)/python -m benchmarks.large_model $(ARGS)

bench-decode: $(READY)  ## tokens of a language model, float32 and small weights, next to eager, inductor and torch.onnx
	$(BIN)/python -m benchmarks.decode $(ARGS)

bench-training: $(READY)  ## training steps, next to eager
	$(BIN)/python -m benchmarks.training $(ARGS)

bench-autotune: $(READY)  ## option autotune: calls of many models, next to eager
	$(BIN)/python -m benchmarks.autotune $(ARGS)

op-cost: $(READY)  ## time and memory of every operator, next to torch's kernels (ARGS=--bounded: a rotating part)
	$(BIN)/python -m benchmarks.op_cost $(ARGS)

bench-rewrites: $(READY)  ## rewrites: latency next to torch.onnx's graphs, nodes, seconds
	$(BIN)/python -m benchmarks.rewrites $(ARGS)

bench-variants: $(READY)  ## one layer of each kind: state spaces, experts, attention, positions
	$(BIN)/python -m benchmarks.variants $(ARGS)

bench-cache: $(READY)  ## a token over a cache of 8 bits, next to one of float32
	$(BIN)/python -m benchmarks.cache $(ARGS)

bench-cuda: $(READY)  ## models on a GPU, next to eager and inductor
	$(BIN)/python -m benchmarks.cuda $(ARGS)

bench-plots: $(READY)  ## the pictures of docs/performance.md, from the records; measures nothing
	$(BIN)/python -m benchmarks.plots $(ARGS)

gpu: $(READY)  ## the CUDA provider on the GPU of this machine; says what is missing where it cannot run
	$(BIN)/python -m tests.cuda $(ARGS)

clean:  ## remove the environment, caches and build products
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
