# `make demo` and `make test` do all the set-up on a machine with only Python, make and git.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install -q --disable-pip-version-check
# Other Pythons that this machine has, by name or from pyenv, each with a venv of its own.
OTHERS ?= 3.12 3.13

# More options for pytest, e.g. `make test PYTEST_ARGS='tests/test_cases.py -k cursor' OTHERS=`.
PYTEST_ARGS ?=

.PHONY: help demo test test-others chaos check bench golden browser redis java test-spark clean
.DEFAULT_GOAL := help

help: ## say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[view]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) -e '.[view,serve,dev,test,bench,spark]' 'pyspark[connect]'
	# Harbor says that it needs Python 3.12; its ATIF validator runs on 3.11 and needs only pydantic.
	$(PIP) --no-deps --ignore-requires-python 'harbor==0.25.0'
	touch $@

demo: $(VENV)/.installed ## install into .venv and extract the example
	@sh examples/demo.sh $(BIN)/unspool

# The page tests drive a real browser. Where it cannot be installed they say so (and fail in CI).
browser: ## install Chromium, which the tests of the HTML page drive
	@command -v chromium >/dev/null 2>&1 || \
	{ command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || \
	echo "no chromium, and it cannot be installed here: the tests of the HTML page need it"

# The tests of the Spark engine start a cluster, from the pip package. It needs Java.
java: ## install Java 17, which the tests of the Spark engine need
	@command -v java >/dev/null 2>&1 || \
	{ command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jre-headless >/dev/null; } || \
	echo "no Java, and it cannot be installed here: the tests of the Spark engine need it"

redis: ## install redis-server, which the tests of live capture start
	@command -v redis-server >/dev/null 2>&1 || \
	{ command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server >/dev/null; } || \
	echo "no redis-server, and it cannot be installed here: the tests of the queue in Redis need it"

test: $(VENV)/.installed-dev browser redis java ## run all tests, on every Python that is here
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(PYTEST_ARGS)
	@$(MAKE) --no-print-directory test-others

# The suite on other Pythons, without the tests of the page and of speed, which do not depend on it.
test-others: ## run the tests on other Pythons (OTHERS)
	@for v in $(OTHERS); do \
	  for python in python$$v $$HOME/.pyenv/versions/$$v*/bin/python; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info[:2] != tuple(map(int, "'$$v'".split("."))))' 2>/dev/null; then \
	      echo "== Python $$v"; \
	      [ -e .venv-$$v/.done ] || { $$python -m venv .venv-$$v && \
	        .venv-$$v/bin/python -m pip install -q --disable-pip-version-check -e '.[view,serve,test,bench]' && \
	        .venv-$$v/bin/python -m pip install -q --disable-pip-version-check --no-deps --ignore-requires-python 'harbor==0.25.0' && \
	        touch .venv-$$v/.done; } || exit 1; \
	      .venv-$$v/bin/python -m pytest -n 2 -m 'not browser and not slow and not live and not serve and not spark' || exit 1; \
	      break; \
	    fi; \
	  done; \
	done

# Live capture under everything that can happen to it, at full size; the suite has a short form of it.
chaos: $(VENV)/.installed-dev redis ## kill, fill, lock and flood live capture, with figures (20 minutes)
	PYTHONPATH=src $(BIN)/python -m pytest tests/live/chaos.py $(PYTEST_ARGS)

# Older Sparks that are still served, each in a venv of its own, and with them the test at full size.
SPARKS ?= 3.5 4.0
test-spark: $(VENV)/.installed-dev java ## run the Spark tests on older versions too, and at full size
	UNSPOOL_SPARK_FULL=1 $(BIN)/python -m pytest tests/spark $(PYTEST_ARGS)
	@for v in $(SPARKS); do \
	  echo "== Spark $$v"; \
	  [ -e .spark/$$v/.done ] || { $(PYTHON) -m venv .spark/$$v && \
	    .spark/$$v/bin/python -m pip install -q --disable-pip-version-check -e '.[test,bench,spark]' "pyspark$$( [ $$v = 3.5 ] || echo '[connect]' )==$$v.*" 'pandas<3' && \
	    touch .spark/$$v/.done; } || exit 1; \
	  .spark/$$v/bin/python -m pytest tests/spark $(PYTEST_ARGS) || exit 1; \
	done

check: $(VENV)/.installed-dev ## ruff, mypy and import-linter
	$(BIN)/ruff format --check src tests bench
	$(BIN)/ruff check src tests bench
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports

# Regenerates what is checked by eye: the expected output of the cases, and the CLI reference.
golden: $(VENV)/.installed-dev ## regenerate expected outputs and docs/cli.md
	PYTHONPATH=src $(BIN)/python -m tests.golden
	PYTHONPATH=src $(BIN)/python -m tests.reference

# `make bench ARGS='telemetry store'` runs only those.
bench: $(VENV)/.installed-dev ## measure speed and memory (ARGS='telemetry store')
	PYTHONPATH=src $(BIN)/python -m bench.run $(ARGS)

clean: ## remove what was installed and built
	rm -rf $(VENV) .venv-3.* .spark build dist src/*.egg-info demo-out
