# Every target sets up what it needs. PYTHON may name any CPython from 3.11 on.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
REPOS  ?=
SEEDS  ?= 5

RUN_READY := $(VENV)/.ready-run
DEV_READY := $(VENV)/.ready-dev
PIP       := $(BIN)/python -m pip --disable-pip-version-check --quiet
# A command starts in a third less time; where PYTHONDONTWRITEBYTECODE is set Python would compile at each start.
COMPILE   := $(BIN)/python -m compileall -q tracker storage advisories

.PHONY: demo run test lint types contracts check format bench soak storm fuzz clean

demo: $(RUN_READY) ## a loopback Hub with scripted revisions, the daemon and its pages
	$(BIN)/hubwatch demo $(ARGS)

run: $(RUN_READY) ## the daemon on the real Hub: make run REPOS="owner/name owner/*"
	@set -f; for repo in $(REPOS); do $(BIN)/hubwatch watch add "$$repo" || exit $$?; done
	$(BIN)/hubwatch run $(ARGS)

test: $(DEV_READY) ## all tests
	$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

lint: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV_READY)
	$(BIN)/mypy

contracts: $(DEV_READY)
	$(BIN)/lint-imports

check: lint types contracts test ## what CI runs

format: $(DEV_READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV_READY) ## measured ratios, printed; see docs/benchmarks.md
	$(BIN)/python -m tests.bench $(ARGS)

soak: $(DEV_READY) ## a long backfill by daemons that are killed again and again; make soak ARGS="--seed 2"
	$(BIN)/python -m tests.soak $(ARGS)

storm: $(DEV_READY) ## every fault in every mode, a kill at every transaction; make storm SEEDS=20
	STORM_SEEDS=$(SEEDS) $(BIN)/python -m pytest tests/storms -n auto --dist worksteal $(ARGS)

fuzz: $(DEV_READY) ## every parser of upstream bytes on made-up input; FUZZ_SECONDS=300 make fuzz
	$(BIN)/python -m tests.fuzz $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hubwatch needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(RUN_READY): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e .
	@$(COMPILE)
	@touch $@

$(DEV_READY): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[dev]'
	@$(COMPILE)
	@touch $@ $(RUN_READY)
