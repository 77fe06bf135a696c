# Everything a developer or a visitor runs. Each target makes the virtual environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready-dev
# Share of the long runs that `make soak` does: 1 is all of it.
SOAK ?= 1
# Test processes side by side. The threads of matrix products would only wait for each other's
# cores, busily; and without bytecode every process that a test starts would compile the package.
JOBS ?= auto
PYTEST := OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= \
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

# What `make quick` runs, to be had in a minute: rooms and style of names, saved files, one contract
# test of every kind of thing, and for every kernel a comparison with a slow truth.
QUICK := tests/test_rooms.py tests/test_codes.py tests/test_checks.py tests/saved \
	tests/contracts/test_indexes.py tests/contracts/test_projections.py \
	tests/contracts/test_rotations.py tests/kernels/test_band_index.py \
	tests/kernels/test_multi_index.py tests/index/test_flat.py tests/rescoring/test_rescore.py \
	tests/collection/test_funnel.py tests/collection/test_refusals.py \
	tests/hashers/test_projection_hash.py tests/hashers/test_minhash.py \
	tests/hashers/test_unifdiag.py tests/hashers/trackers/test_learning.py \
	tests/learn/test_heshing_kernels.py tests/learn/test_taxonomy.py
# Tests among them that take seconds each.
NOT_QUICK := sequence_of_writes or any_split_of_the_rows or thousand_bits or angle_over_pi or \
	without_a_compiler or errors_are_as_large_as_they_say or wide_codes

.PHONY: demo test quick lint types bench soak coverage clean warm-search warm-others

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	touch $@

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/.ready

demo: $(VENV)/.ready
	$(BIN)/bitkin demo --force

test: $(READY)
	$(PYTEST)

# Kernels that most tests need, compiled by one process instead of by every test process.
warm-search: $(READY)
	$(BIN)/bitkin warmup search collection multi bands cells --bits 64

warm-others: $(READY)
	$(BIN)/bitkin warmup wta minhash stream dedup classify --bits 64

quick: $(READY)
	$(PYTEST) -k "not ($(NOT_QUICK))" $(QUICK)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	@for file in bench/*.py; do case $$file in bench/_*) ;; *) echo "# $$file"; $(BIN)/python $$file || exit 1;; esac; done

soak: $(READY)
	BITKIN_SOAK=$(SOAK) $(PYTEST) -p no:cacheprovider soak

coverage: $(READY)
	NUMBA_DISABLE_JIT=1 $(PYTEST) --cov --cov-report=term-missing:skip-covered tests

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
