# make demo    install what it needs into .venv (no torch), run the default scenario, print its table and the report's path
# make test    install, run the fast tests
# make conformance   install, hold ExPriL's programs and another learner to the protocol's pages
# make audit   install, attack every release and what is broken on purpose: audit/audit.html; exit 1 if something is wrong
# make docs    install, build the site of docs/: build/docs/index.html
# make deploy-demo   install, show a deployment on this machine from end to end; JOIN=1 waits for a fourth hospital
# The first that runs and is of a version that ExPriL supports; a shim on the path may be dead.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.simulates
PEERS_VENV ?= .venv-peers
PEERS_STAMP := $(PEERS_VENV)/.installed
AUDITED_VENV ?= .venv-audited
AUDITED_STAMP := $(AUDITED_VENV)/.installed
SCENARIO ?= wdbc

export FLWR_TELEMETRY_ENABLED = 0
# Several BLAS threads on small matrices, beside several test processes, cost more than they give; who sets another number gets it.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist worksteal

.PHONY: demo deploy-demo audit test test-slow test-all test-jitter test-wheel axe pages held measures check format bench conformance vectors install curator-lock docs peers audited clean

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO_STAMP))
	$(BIN)/expril simulate $(SCENARIO)

# Four minutes on two cores; needs no data and no network.
audit: $(STAMP)
	$(BIN)/expril audit all

# A SuperLink, three curators' daemons and two learners on loopback; a minute or two, and nothing is left running.
deploy-demo: $(STAMP)
	$(BIN)/python -m simulations.deploy_demo $(if $(JOIN),--join)

test: $(STAMP)
	$(PYTEST) -m "not slow"

test-slow: $(STAMP)
	$(PYTEST) -m slow

test-all: $(STAMP)
	$(PYTEST)

# As other processors round, see docs/development.md; JITTER="--seeds 1 tests/learner_node" for less.
test-jitter: $(STAMP)
	$(BIN)/python tests/support/jitter $(JITTER)

# axe-core in a cache folder, by npm.
axe: $(STAMP)
	$(BIN)/python tests/support/axe.py

# Every kind of page in a browser: on a phone, in the dark, on paper, by keyboard, and as axe-core reads it; see docs/development.md.
pages: $(STAMP)
	-$(BIN)/python tests/support/axe.py
	$(PYTEST) -m browser tests/system/test_pages.py tests/system/test_browser.py

# What this tree's commands print and write, beside what those of the commit BASE do; see docs/development.md.
held: $(STAMP)
	$(BIN)/python tests/support/held $(if $(BASE),--base $(BASE))

# What this tree holds and what its commands walk through, beside those of the commit BASE; see docs/development.md.
measures: $(STAMP)
	$(BIN)/python tests/support/measures.py $(if $(BASE),--base $(BASE)) $(if $(CLIMBS),--climbs)

# Fails on a dead link, a page in no menu, and a page that loads something from elsewhere.
docs: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 docs build/docs
	@echo build/docs/index.html

# Builds the wheel, installs it bare in an environment of its own, and uses it.
test-wheel: $(STAMP)
	$(BIN)/python -m pytest -q tests/system/test_wheel.py

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --output-format concise .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(if $(BASE),--base $(BASE))

# The conformance suite against ExPriL's own programs and the learner in JavaScript.
conformance: $(STAMP)
	$(BIN)/python -m pytest -q tests/conformance

vectors: $(STAMP)
	$(BIN)/python tests/protocol/vectors/generate.py

install: $(STAMP)

# What a curator's machine installs, with the hash of every file of it, and with what builds ExPriL itself.
curator-lock: $(STAMP)
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
		$(BIN)/python -m uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-annotate \
		--excludes deploy/curator.excluded \
		--constraint requirements.lock --extra postgresql --custom-compile-command "make curator-lock" \
		--output-file deploy/curator.lock pyproject.toml - >/dev/null

# A pip before 25 takes twice as long to choose among an index's files. Without an index the old one goes on.
define environment
@test -n "$(PYTHON)" || { echo "ExPriL needs Python 3.11 to 3.13 with venv; say which: make PYTHON=/path/to/python3.12"; exit 1; }
$(PYTHON) -m venv $(VENV)
-$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25'
endef

# In the locked versions, whole or in part.
$(DEMO_STAMP): requirements.lock pyproject.toml
	$(environment)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint requirements.lock --editable '.[simulations]'
	touch $@

$(STAMP): requirements.lock pyproject.toml lab/pyproject.toml conformance/pyproject.toml
	$(environment)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . --editable ./lab --editable ./conformance
	touch $(STAMP)

# The peers' own environment: an older scikit-learn first, and all the rest (torch above all) as ExPriL's has it.
peers: $(PEERS_STAMP)

$(PEERS_STAMP): $(STAMP) lab/peers/requirements.txt
	$(BIN)/python -m venv --clear $(PEERS_VENV)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($(PEERS_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/expril.pth"
	$(PEERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement lab/peers/requirements.txt
	touch $@

# What `expril-lab peers` plays and the peers' environment cannot hold.
audited: $(AUDITED_STAMP)

$(AUDITED_STAMP): $(STAMP) lab/peers/requirements-audited.txt
	$(BIN)/python -m venv --clear $(AUDITED_VENV)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($(AUDITED_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/expril.pth"
	$(AUDITED_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement lab/peers/requirements-audited.txt
	touch $@

clean:
	rm -rf $(VENV) $(PEERS_VENV) $(AUDITED_VENV) build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
