# Everything a developer or a visitor runs. Each target makes the virtual environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready-dev
# Share of the long runs that `make soak` does: 1 is all of it.
SOAK ?= 1
# Test processes side by side.
JOBS ?= auto

.PHONY: demo test lint types bench soak coverage clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	touch $@

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/.ready

demo: $(VENV)/.ready
	$(BIN)/bitkin demo

test: $(READY)
	$(BIN)/python -m pytest -q -n $(JOBS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	@for file in bench/*.py; do case $$file in bench/_*) ;; *) echo "# $$file"; $(BIN)/python $$file || exit 1;; esac; done

soak: $(READY)
	BITKIN_SOAK=$(SOAK) $(BIN)/python -m pytest -q -p no:cacheprovider -n $(JOBS) soak

coverage: $(READY)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n $(JOBS) --cov --cov-report=term-missing:skip-covered tests

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
