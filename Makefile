# Everything a developer or CI runs, by name. `make` alone lists it.
# Each target makes the virtual environment it needs; nothing has to be installed first but Python >= 3.11 and make.

VENV   ?= .venv
DOSE   ?= 1
NIGHTS := tests/night/test_real_night.py tests/night/test_night_elsewhere.py
SEED   ?=
CORES  := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
# Many tests wait for processes, so two workers a core keep the machine busy.
JOBS   ?= $(shell echo $$((2 * $(CORES))))
ARGS   ?=
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
LIGHT  := $(VENV)/.installed-to-run
# A tier of tests: run, up to three red ones once more and alone, and judged. `make quick` etc. keep their records in .gate/.
TIER    = $(BIN)/python scripts/gate.py $@ -n $(JOBS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo quick test lint check bench metrics programs pins pooled full storm mutants mutation wheel release-check constraints reference picture screenshots site clean night week campaign fuzz

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with everything that development needs (once)

# PYTHON=/path/to/python3.12 chooses another one. LOCKED=1 installs exactly what constraints.txt pins, as CI does.
# `make demo` alone installs only what the program needs.
$(STAMP): EXTRAS := [dev]
$(STAMP): SIZE := 430 MB with the tools of development
$(LIGHT): SIZE := 100 MB
$(STAMP) $(LIGHT): pyproject.toml constraints.txt
	@set -e; python=; \
	for one in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  if command -v "$$one" >/dev/null 2>&1 && \
	     "$$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$one; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "Interlock needs Python 3.11 or newer, and none was found. Install one, or say where: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; fi; \
	if ! "$$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then \
	  echo "$$python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; fi; \
	echo "Setting up $(VENV) with $$python (once, about a minute; downloads up to $(SIZE)) ..."; \
	test -x $(BIN)/python || "$$python" -m venv $(VENV); rm -f $(VENV)/.failed; \
	if [ -n "$(LOCKED)" ]; then \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	else { $(BIN)/python -m pip install --disable-pip-version-check -e '.$(EXTRAS)' 2>&1 || touch $(VENV)/.failed; } | \
	  awk '/^Collecting|^Building|^Installing|^ERROR|error:/ {print "  " substr($$0, 1, 76); fflush()}'; \
	  test ! -e $(VENV)/.failed; fi; \
	touch $@

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(LIGHT)) ## see the main job at work, in under a minute
	@$(BIN)/interlock demo $(ARGS)

quick: lint ## what an author waits for: format, lint, types, layers, reference, house rules, unit tests
	@$(TIER) tests/unit tests/architecture $(ARGS)

test: $(STAMP) ## run the tests (ARGS="-k claim" chooses)
	@$(TIER) $(ARGS)

lint: $(STAMP) ## format check, ruff, mypy, import layers, generated reference
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/reference.py --check

check: quick test full ## everything that CI checks

bench: $(STAMP) ## benchmarks, each next to its baseline (ARGS="wake --json" chooses; --peers: beside other tools)
	@$(BIN)/python -m bench $(ARGS)

metrics: $(STAMP) ## print how large and how fragmented src/ is, and what everyday commands load and ask
	@$(BIN)/python scripts/metrics.py

programs: ## install the programs of others that tests drive, as pins/ says (ARGS="gemini opencode": those)
	@python3 scripts/pinned.py $(ARGS)

pins: $(STAMP) ## move pins/ to the newest releases (ARGS="claude codex": those); a commit of its own
	@$(BIN)/python scripts/pinned.py --move $(ARGS)

# What a ledger does, tried on a server as it is on a file by `make test`.
SHARED := claims task_ledger dependencies mailbox delivery questions answers rounds recovery sessions
pooled: $(STAMP) ## run the tests of ledgers on Debian's PostgreSQL, behind PgBouncer
	@TEST_LEDGER=postgres bash .ci/pooled $(TIER) -m "not storm" --timeout=300 \
	  -k "postgres or server or both$(SHARED:%= or test_%)" \
	  tests/conformance tests/behaviours/test_postgres.py $(SHARED:%=tests/behaviours/test_%.py) \
	  tests/simulation tests/crash $(ARGS)

full: $(STAMP) ## whole runs: a browser, programs of others (`make programs`), nights, small storms; a quarter of an hour
	@DOSE=0.02 SEED=1 ONLY_MARKED=long,dosed $(TIER) -m "(long and not storm) or dosed" --timeout=300 $(ARGS)

storm: $(STAMP) ## before a release: long storms of processes and random cases (DOSE=0.1 a tenth of them, SEED=7 the same)
	@DOSE=$(DOSE) SEED=$(SEED) $(TIER) -n $(CORES) -m storm --timeout=1800 $(ARGS)

mutants: $(STAMP) ## plant twenty bugs, one after the other, and see that a test finds each (ARGS=NAME chooses)
	@$(BIN)/python -m tests.mutants $(ARGS)

mutation: $(STAMP) ## make small changes where it matters most, and see how many a test notices (ARGS="claim --sample 50")
	@$(BIN)/python -c 'import cosmic_ray, coverage' 2>/dev/null || $(BIN)/python -m pip install --quiet cosmic-ray coverage
	@$(BIN)/python -m tests.mutants.score $(ARGS)

night: $(STAMP) ## forty tasks by Claude Code and Codex, killed and limited, and forty by two workers (DOSE=0.1 for a tenth)
	@DOSE=$(DOSE) SEED=$(SEED) $(BIN)/python -m pytest -s -m storm --timeout 3600 $(NIGHTS) $(ARGS)

week: $(STAMP) ## a week of a server in minutes, 50 members, 20,000 tasks, 100,000 messages: what grows (DOSE=0.1 for a tenth)
	@$(BIN)/python scripts/week.py --dose $(DOSE) $(ARGS)

campaign: $(STAMP) ## the ways in which agents fail, each with its tests (ARGS="FM-3" chooses); prints docs/failures.md
	@$(BIN)/python -m scripts.proofs $(ARGS)

fuzz: $(STAMP) ## look for texts that crash or hang what reads them, with atheris (ARGS="60 plan": minutes, and which)
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet atheris
	@$(BIN)/python -m tests.fuzz $(ARGS)

wheel: $(STAMP) ## build dist/*.whl
	@rm -rf dist
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .

release-check: $(STAMP) ## build what is published, install it in a clean environment, run demo and documentation there
	@$(BIN)/python scripts/release_check.py $(ARGS)

constraints: $(STAMP) ## pin what CI installs into constraints.txt, from pyproject.toml
	$(BIN)/python -m pip install --quiet pip-tools
	printf 'editables\n' | $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	  --no-annotate --no-header --no-emit-options --extra dev -o constraints.txt pyproject.toml -
	sed -i.bak '1i # What CI installs, pinned by hash: `make setup LOCKED=1`. Written by `make constraints` on Python 3.11.' \
	  constraints.txt && rm constraints.txt.bak

reference: $(STAMP) ## write docs/reference/ from the code
	@$(BIN)/python scripts/reference.py

picture: $(STAMP) ## draw the demo's terminal, as it moves, into docs/pictures/
	@$(BIN)/python scripts/terminal_picture.py --moving --moment "ben starts again" \
	  docs/pictures/demo.svg $(BIN)/interlock demo

screenshots: $(STAMP) ## take the pictures of the page that the documentation shows
	@PYTHONPATH=. $(BIN)/python scripts/screenshots.py

site: ## build the documentation as a site into site/; a link that leads nowhere fails it
	@python3 scripts/pinned.py site
	@.pinned/site/bin/zensical build --clean --strict

clean: ## remove what these targets made
	rm -rf $(VENV) .fuzz .pinned .cache build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .gate
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
