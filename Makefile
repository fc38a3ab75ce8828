# torchstone: `make test` on a fresh machine does everything, from the virtual environment on.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: test slow lint demo bench docs clean

# Each process gets neighbouring tests, which share workers and pages, and takes over tests of another when it has done its own.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

# All checks, and all tests but the slow ones: at most ten minutes on two cores.
test: $(VENV)/installed lint
	$(PYTEST) -m "not slow"

# The tests that take long: every model of every suite, and the like; and every property, tried five times as often.
slow: $(VENV)/installed
	$(PYTEST) -m slow --hypothesis-profile=thorough

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The main job: measure the smoke suite (about two minutes), judge statuses and graph breaks, make a page to look at; then a history of half a year, made up.
demo: $(VENV)/installed
	rm -rf .torchstone/demo
	$(BIN)/torchstone run smoke --device cpu --output .torchstone/demo/run.jsonl
	@echo
	$(BIN)/torchstone check .torchstone/demo/run.jsonl --baseline examples/smoke_expected.csv
	@echo
	$(BIN)/torchstone report .torchstone/demo/run.jsonl --baseline examples/smoke_expected.csv --output .torchstone/demo/report.html
	@echo
	$(BIN)/python benchmarks/nights.py .torchstone/demo/nights --nights 180
	$(BIN)/torchstone record .torchstone/demo/nights --store .torchstone/demo/history.db
	@echo
	@echo "Open .torchstone/demo/report.html, and the history with: $(BIN)/torchstone serve --store .torchstone/demo/history.db"

# torchstone's own speed, against what people use today; prints ratios.
bench: $(VENV)/installed
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/run_suite.py
	$(BIN)/python benchmarks/compile_cache.py
	$(BIN)/python benchmarks/instructions.py
	$(BIN)/python benchmarks/compare_speed.py
	$(BIN)/python benchmarks/history.py
	$(BIN)/python benchmarks/grouping.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/verdicts.py simulate
	$(BIN)/python benchmarks/scaling.py

# Write the pages that are generated: docs/cli.md.
docs: $(VENV)/installed
	$(BIN)/python docs/generate.py

# Compiled once here, as an ordinary install would do: a command should not spend its first moments compiling.
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,models]'
	$(BIN)/python -m compileall -q src
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
