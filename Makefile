# What is done to this project, by hand and by CI. `make demo` and `make test` need nothing but Python 3.11 or newer;
# on a bare Debian, as root, they install python3-venv themselves.
#
#   make demo PIP_ARGS="--index-url https://example.org/simple"    another package index
#   make test TORCH="torch torchvision"                            another torch than CI's

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
TORCH ?= torch==2.14.1 torchvision==0.29.1
DALI ?= dali-cuda12
RUN ?= $(shell ls -td runs/*/ 2>/dev/null | head -n 1)

PIP = $(VENV)/bin/python -m pip install --quiet $(PIP_ARGS)
DAWNRUN = $(VENV)/bin/dawnrun
PYTEST = $(VENV)/bin/python -m pytest
export DAWNRUN PYTHON

.PHONY: help install dali demo demo-full demo-seeds train-smoke train-real report test test-slow unit parity e2e testbeds \
        check bench docs golden records clean distclean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

# -- installation: a stamp each, so that a second make is quick ----------------------------------------------------

$(VENV)/bin/python:
	scripts/make_venv.sh $(VENV)

$(VENV)/.installed: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(PIP) $(TORCH) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(PIP) -e ".[test]"
	@touch $@

$(VENV)/.check: $(VENV)/.installed
	$(PIP) -e ".[check]"
	@touch $@

$(VENV)/.dali: $(VENV)/.installed
	$(PIP) -e ".[$(DALI)]"
	@touch $@

install: $(VENV)/.installed ## the package into .venv

dali: $(VENV)/.dali ## NVIDIA DALI into .venv (800 MB; decodes on CPUs too); without it its tests are skipped

# -- runs ----------------------------------------------------------------------------------------------------------

data/demo: | $(VENV)/.installed
	$(DAWNRUN) data demo $@

demo: $(VENV)/.installed data/demo ## train ResNet-50 on the embedded data set to its target, and report
	scripts/train_and_report.sh demo --data-root data

demo-full: $(VENV)/.installed data/demo ## the same through three image sizes, to the last epoch
	scripts/train_and_report.sh demo-full --data-root data

demo-seeds: $(VENV)/.installed data/demo ## the demo with five seeds: how many reach the target
	scripts/demo_seeds.sh --data-root data

train-smoke: $(VENV)/.installed data/demo ## a training of under a minute, for CI
	$(DAWNRUN) train --config smoke --data-root data

report: $(VENV)/.installed ## report on RUN (default: the newest)
	$(DAWNRUN) report $(RUN)

data/fashion-mnist: | $(VENV)/.installed
	scripts/fetch_fashion_mnist.sh
	$(VENV)/bin/python scripts/make_fashion_mnist.py --out $@ --train-per-class 800

train-real: $(VENV)/.installed data/fashion-mnist ## ResNet-50 on photographs (Debian's Fashion-MNIST) to its target
	scripts/train_and_report.sh fashion-mnist --data-root data

records: $(VENV)/.installed ## every published recipe, made small, through all its phases on 2 CPU processes
	$(VENV)/bin/python scripts/run_records.py

# -- checks: what CI runs ------------------------------------------------------------------------------------------

test: $(VENV)/.test ## all tests that take less than a minute each
	$(PYTEST) -m "not slow" --durations=15

test-slow: $(VENV)/.test ## the others
	$(PYTEST) -m slow --durations=15 --timeout=3600

unit parity e2e testbeds: $(VENV)/.test ## one folder of tests
	$(PYTEST) -m "not slow" tests/$@

check: $(VENV)/.check ## ruff, mypy, import-linter
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.test ## each benchmark prints a ratio against something measured in the same run
	@for file in tests/benchmarks/*.py; do echo "== $$file"; $(VENV)/bin/python $$file || exit 1; done

docs: $(VENV)/.installed ## write docs/recipes.md, docs/records.md and the pictures of a demo run's page anew
	$(VENV)/bin/python scripts/make_recipe_docs.py
	$(VENV)/bin/python scripts/make_layout.py
	$(VENV)/bin/python scripts/make_records_page.py
	scripts/make_screenshots.sh

golden: $(VENV)/.installed ## write tests/golden anew; review the difference
	$(VENV)/bin/python scripts/make_golden_plans.py

clean: ## build products and caches; runs, data and .venv stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage*
	find dawnrun scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## .venv too
	rm -rf $(VENV)
