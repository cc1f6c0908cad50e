# `make demo` and `make test` do all the set-up on a machine with only Python, make and git.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
RUN = PYTHONPATH=src $(BIN)/python

.PHONY: demo test check bench golden clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev,test,bench]'
	# Harbor says that it needs Python 3.12; its ATIF validator runs on 3.11 and needs only pydantic.
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --ignore-requires-python 'harbor==0.25.0'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/unspool extract examples/telemetry

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2
	@for v in 3.12 3.13; do \
	  if command -v python$$v >/dev/null 2>&1; then echo "python$$v is here"; fi; done

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check src tests bench
	$(BIN)/ruff check src tests bench
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports

golden: $(VENV)/.installed-dev
	$(RUN) -m tests.golden

bench: $(VENV)/.installed-dev
	$(RUN) bench/run.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info
