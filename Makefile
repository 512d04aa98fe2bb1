# Everything a contributor runs. Each target makes the environment it needs: `make demo` works in a fresh clone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup lock lint check test bounds demo bench clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with the locked versions (others do this when needed)

# The stamp is written last, so an interrupted installation starts again. The project itself is installed editable
# with the locked build back end, hence no build isolation and no second download.
$(STAMP): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked versions into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $(STAMP)

lock: $(STAMP) ## choose versions anew from pyproject.toml and write requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager --no-build-isolation --editable '.[dev]'
	@{ head -n 1 requirements.lock; $(BIN)/python -m pip freeze --all --exclude-editable --exclude pip; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock
	@touch $(STAMP)

lint: $(STAMP) ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint ## what to run before every commit: lint, fast tests, bench smoke (under two minutes)
	$(BIN)/python -m pytest -q -m "not slow"
	@if [ -f bench/smoke.py ]; then $(BIN)/python -m bench.smoke; fi

test: lint ## everything: lint, all tests, bench smoke, 1,000 random epochs against the oracle
	$(BIN)/python -m pytest -q
	@if [ -f bench/smoke.py ]; then $(BIN)/python -m bench.smoke; fi
	$(BIN)/millrace verify engine --epochs 1000 --seed 1

bounds: $(STAMP) ## 200 random epochs with every array index in the kernels checked (compiles them anew the first time)
	NUMBA_BOUNDSCHECK=1 $(BIN)/millrace verify engine --epochs 200 --seed 1 --threads 1,2

demo: $(STAMP) ## Kafka, Spark, the engine, a kill -9 in the middle, and the accounting (needs Java and Maven)
	$(BIN)/millrace demo

bench: $(STAMP) ## run the benchmarks, small
	$(BIN)/python -m bench.smoke

clean: ## remove everything that was made, .venv too
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .millrace-cache
	find engine services millrace bench schemas spark_jobs tests -name __pycache__ -type d -prune -exec rm -rf {} +
