# Everything a developer or CI runs, by name. `make` alone lists it.
# Each target makes the virtual environment it needs; nothing has to be installed first but Python >= 3.11 and make.

VENV   ?= .venv
DOSE   ?= 1
CORES  := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
# Many tests wait for processes, so two workers a core keep the machine busy.
JOBS   ?= $(shell echo $$((2 * $(CORES))))
ARGS   ?=
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# A tier of tests: run, up to three red ones once more and alone, and judged. `make quick` etc. keep their records in .gate/.
TIER    = $(BIN)/python scripts/gate.py $@ -n $(JOBS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo quick test lint check bench metrics agents servers storm wheel constraints reference picture screenshots clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with everything that development needs (once)

# PYTHON=/path/to/python3.12 chooses another one. LOCKED=1 installs exactly what constraints.txt pins, as CI does.
$(STAMP): pyproject.toml constraints.txt
	@set -e; python=; \
	for one in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  if command -v "$$one" >/dev/null 2>&1 && \
	     "$$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$one; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "Interlock needs Python 3.11 or newer, and none was found. Install one, or say where: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; fi; \
	if ! "$$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then \
	  echo "$$python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; fi; \
	echo "Setting up $(VENV) with $$python (once; about a minute) ..."; \
	"$$python" -m venv $(VENV); \
	if [ -n "$(LOCKED)" ]; then \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	else $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'; fi; \
	touch $@

demo: $(STAMP) ## see the main job at work, in under a minute
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

check: quick test ## everything that CI checks before it storms

bench: $(STAMP) ## measure, each beside its floor (ARGS="wake --json" chooses)
	@$(BIN)/python -m bench $(ARGS)

metrics: $(STAMP) ## print how large and how fragmented src/ is, and what everyday commands load and ask
	@$(BIN)/python scripts/metrics.py

agents: $(STAMP) ## install real agent programs into .agents/, for the tests with them (ARGS="gemini opencode")
	@$(BIN)/python scripts/fetch_agents.py $(ARGS)

servers: $(STAMP) ## install the real memory servers into .agents/, for the tests with them
	@$(BIN)/python scripts/fetch_memory_servers.py $(ARGS)

storm: $(STAMP) ## long storms of processes and random cases (DOSE=0.1 for a tenth of them)
	@DOSE=$(DOSE) $(TIER) -n $(CORES) -m storm --timeout=1800 $(ARGS)

wheel: $(STAMP) ## build dist/*.whl
	@rm -rf dist
	@$(BIN)/python -m build --wheel --outdir dist .

constraints: $(STAMP) ## pin what CI installs into constraints.txt, from pyproject.toml
	$(BIN)/python -m pip install --quiet pip-tools
	printf 'hatchling>=1.20\neditables\n' | $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	  --no-annotate --no-header --no-emit-options --extra dev -o constraints.txt pyproject.toml -
	sed -i.bak '1i # What CI installs, pinned by hash: `make setup LOCKED=1`. Written by `make constraints` on Python 3.11.' \
	  constraints.txt && rm constraints.txt.bak

reference: $(STAMP) ## write docs/reference/ from the code
	@$(BIN)/python scripts/reference.py

picture: $(STAMP) ## draw the demo's terminal into docs/pictures/
	@$(BIN)/python scripts/terminal_picture.py --moment "attempt 1 failed" --tail 4 \
	  docs/pictures/demo.svg $(BIN)/interlock demo

screenshots: $(STAMP) ## take the pictures of the page that the documentation shows
	@PYTHONPATH=. $(BIN)/python scripts/screenshots.py

clean: ## remove what these targets made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .gate
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
