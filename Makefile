# Two commands are enough on a fresh machine: `make run` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8787
HOST ?= 127.0.0.1
DATA ?= turnwire.db
MODEL ?= scripted
PAGE := server/turnwire/page/index.html
JS_SOURCES := $(shell find clients/js -type f -not -path '*/node_modules/*' -not -path '*/dist/*')

.PHONY: help install run test browser check js fmt clean
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

run: install  ## Serve the chat page on http://127.0.0.1:8787 (PORT=, DATA=, MODEL=scripted|local|openai:NAME)
	$(BIN)/turnwire serve --host $(HOST) --port $(PORT) --data $(DATA) --model $(MODEL)

test: install browser js  ## Set up and run all tests
	$(BIN)/python -m pytest

browser:  # the end-to-end tests want Chromium; they say so when they have to go without
	@command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -q && apt-get install -y -q --no-install-recommends chromium; \
	  else echo "chromium is not installed: the browser tests will be left out"; fi; }

js: clients/js/node_modules/.installed  ## Run the tests of the JavaScript client
	cd clients/js && npm run --silent test

check: install  ## Lint and type-check everything
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd clients/js && npm run --silent check

fmt: install  ## Format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove everything that was built or installed here
	rm -rf $(VENV) clients/js/node_modules clients/js/dist server/turnwire/page
