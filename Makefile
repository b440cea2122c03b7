# Everything runs in .venv, which the first target creates: a machine needs Python >= 3.11 and make.
# PYTHON=python3.12 make test   another interpreter;   JOBS=4   test processes;   ARGS='-k relu'   pytest or script arguments.

PYTHON ?= python3
JOBS ?= 2
ARGS ?=
TOPIC ?= backend
NAME ?= node_tests
SET ?= torchvision
# what `make quick` runs: every sample call of the specs once, and the tests that most changes break
QUICK := tests/packaging/test_layers.py tests/packaging/test_repository.py tests/errors \
	tests/codegen/test_golden.py tests/codegen/rewrites/test_matching.py tests/specs/test_cases.py \
	tests/rewrites tests/ir tests/dims tests/builder tests/interpreter tests/lowerings tests/inference \
	tests/passes/test_pipeline.py tests/passes/test_basic.py tests/passes/rewrite/test_engine.py \
	tests/exporter/test_programs.py tests/exporter/test_outputs.py tests/exporter/test_dynamic_shapes.py \
	tests/backend/test_models.py tests/backend/test_training.py tests/backend/test_mutation.py \
	tests/backend/test_options.py tests/debug/test_first_difference.py tests/cli/test_cli.py
# where tests take turns or are slow; `make sweeps` runs these
SWEEPS := tests/sweeps tests/backend tests/cli tests/codegen tests/conformance tests/debug tests/examples tests/exporter \
	tests/faults tests/fuzz tests/mutate tests/packaging tests/passes tests/specs/test_loops.py tests/vision tests/weights
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help run quick test codegen check docs format sweeps opsets case-counts conformance data-checks hf vision portable web libraries zoo fuzz mutate support bench bench-cuda gpu clean suite

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

quick: $(READY)  ## the parts that most changes touch: under three minutes on two cores
	$(BIN)/python -m ortablegen check
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(QUICK) $(ARGS)

test: $(READY)  ## the tests; heavy ones have targets of their own: sweeps, opsets, conformance
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(ARGS)

codegen: $(READY)  ## write generated/ from specs/ (only the files that change)
	$(BIN)/python -m ortablegen generate

check: $(READY)  ## generated/ is up to date; lint, format, types
	$(BIN)/python -m ortablegen check
	$(BIN)/python -m ortablegen format --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)  ## the documentation as a site in build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build $(ARGS)

format: $(READY)  ## lay out the sources and the specs
	$(BIN)/python -m ortablegen format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sweeps: $(READY)  ## programs and models that others wrote, random graphs, several processes
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(SWEEPS) --sweeps $(ARGS)

opsets: $(READY)  ## every sample call of every spec, at every opset, against eager
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/specs --opsets all $(ARGS)

case-counts: $(READY)  ## how many sample calls reach each case of an entry, for `ortable ops`
	$(BIN)/python -m tests.specs.reached

conformance: $(READY)  ## PyTorch's own operator tests against eager (ARGS=--bounded: the short run)
	$(BIN)/python -m tests.conformance --jobs $(JOBS) $(ARGS)

data-checks: $(READY)  ## what eager refuses of data, through the backend (ARGS=--bounded: the rows of the specs)
	$(BIN)/python -m tests.data_checks $(ARGS)

suite: $(READY)  ## what others test: NAME=node_tests (of ONNX), module_tests (of torch), decompositions, extremes (integers at the ends of their range), torch_mlir
	$(BIN)/python -m tests.suites $(NAME) --jobs $(JOBS) $(ARGS)

hf: $(READY)  ## every model class of transformers, made small, exported, against eager (ARGS=--bounded)
	$(BIN)/python -m tests.hf --jobs $(JOBS) $(ARGS)

vision: $(READY)  ## models of torchvision (SET=timm: of timm), exported and compiled, against eager (ARGS=--bounded)
	$(BIN)/python -m tests.vision $(SET) --jobs $(JOBS) $(ARGS)

portable: $(READY)  ## exported models in OpenVINO, tract and onnxruntime-web, against eager (ARGS=--bounded)
	$(BIN)/python -m tests.portable $(ARGS)

web: $(READY)  ## a page that runs exported models in the browser (ARGS=--check: in headless Chromium, against eager)
	$(BIN)/python -m examples.web $(ARGS)

libraries: $(READY)  ## ultralytics, diffusers and others, as docs/libraries.md uses them (ARGS=--bounded)
	$(BIN)/python -m tests.libraries $(ARGS)

zoo: $(READY)  ## programs of many libraries, compiled, trained and exported, against eager (ARGS=--bounded)
	$(BIN)/python -m tests.zoo --jobs $(JOBS) $(ARGS)

fuzz: $(READY)  ## random programs of the specs' own samples, through every front door (ARGS='--count 1000'; KIND=grafts: of rewrites)
	$(BIN)/python -m tests.fuzz$(addprefix .,$(KIND)) --jobs $(JOBS) $(ARGS)

mutate: $(READY)  ## faults put into the code on purpose, and whether tests notice each (ARGS=--bounded: a few)
	$(BIN)/python -m tests.mutate --jobs $(JOBS) $(ARGS)

support: $(READY)  ## the newest of everything, as pip installs it: wheel, documents, core tests (ARGS=--bounded)
	$(BIN)/python -m tests.support --jobs $(JOBS) $(ARGS)

bench: $(READY)  ## a benchmark next to its peers (TOPIC=conversion; benchmarks/README.md lists the topics)
	$(BIN)/python -m benchmarks.$(TOPIC) $(ARGS)

bench-cuda: $(READY)  ## models on a GPU, next to eager and inductor
	$(BIN)/python -m benchmarks.cuda $(ARGS)

gpu: $(READY)  ## the CUDA provider on the GPU of this machine; says what is missing where it cannot run
	$(BIN)/python -m tests.cuda $(ARGS)

clean:  ## remove the environment, caches and build products
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
