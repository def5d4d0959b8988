# make run    from the sample project's history to verified images, scores and a report
# make test   every test, with a container engine; JOBS=1 with one worker
# make check  format, lint, types, and the tests that need no engine
# make setup  only the virtual environment; the command is then .venv/bin/race

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
JOBS ?= 2
STAMP := .venv/.ready
RACE := .venv/bin/race
PYTEST := .venv/bin/python -m pytest -n $(JOBS)
SAMPLE := tasks/sample

.PHONY: help setup engine run test check format lock bench clean

help:
	@sed -n 's/^# //p' Makefile

setup: $(STAMP)

# The newest Python that the machine has, from 3.11 on. uv, pinned by the same lock, installs the rest.
$(STAMP): requirements.lock pyproject.toml
	@python=""; for name in python3.13 python3.12 python3.11 python3; do \
	  if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; break; fi; done; \
	if [ -z "$$python" ]; then echo "race needs Python 3.11 or newer; install it and run make again" >&2; exit 3; fi; \
	rm -rf .venv; \
	if ! $$python -m venv .venv 2>/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing python3-venv"; apt-get update -qq; apt-get install -y -qq python3-venv >/dev/null; $$python -m venv .venv; \
	  else echo "$$python cannot make a virtual environment; install python3-venv and run make again" >&2; exit 3; fi; fi
	@awk '/^[a-zA-Z]/ {keep = /^uv==/} keep' requirements.lock > .venv/uv.lock
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r .venv/uv.lock
	.venv/bin/uv pip sync --quiet --python .venv/bin/python --require-hashes requirements.lock
	.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e .
	@touch $(STAMP)

engine: $(STAMP)
	@$(RACE) doctor --fix

run: engine
	@$(RACE) sample .race/sample-project
	@$(RACE) build $(SAMPLE) --clone .race/sample-project --repo sample/brook -j $(JOBS) --here
	@$(RACE) export $(SAMPLE) --format soma --output .race/export
	@$(RACE) score --tasks .race/export/tasks.jsonl --runs $(SAMPLE)/local/runs.jsonl --baseline scripted/steady
	@$(RACE) report $(SAMPLE) --output reports/output/sample
	@$(RACE) status $(SAMPLE)
	@echo "report: reports/output/sample/index.html"

test: engine
	$(PYTEST)

check: $(STAMP)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	$(PYTEST) -q -m "not engine and not network and not slow"

format: $(STAMP)
	.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

lock: $(STAMP)
	.venv/bin/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --group dev \
	  --no-emit-index-url --no-header pyproject.toml -o requirements.lock
	@sed -i '1i # Every dependency of race and of its tests, with hashes. Made by `make lock`.' requirements.lock

bench: engine
	.venv/bin/python tests/bench/spine.py

# Any other benchmark by its name, as in `make bench-score_speed ARGS="--largest 100000"`.
bench-%: $(STAMP)
	.venv/bin/python tests/bench/$*.py $(ARGS)

clean:
	@$(RACE) clean
