# torchstone: `make test` on a fresh machine does everything, from the virtual environment on.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: test slow lint demo bench docs clean

# All checks and all tests.
test: $(VENV)/installed lint
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The main job, on the examples that ship with the repository: three models are red, so that there is something to see.
demo: $(VENV)/installed
	@$(BIN)/torchstone check examples/inductor_huggingface_amp_training_cuda_accuracy.csv --baseline examples/expected.csv --quarantine examples/quarantine.toml; \
	code=$$?; echo; echo "exit code $$code: the gate says no, as it should on these examples"; test $$code -eq 1

# torchstone's own speed, against what people use today; prints ratios.
bench: $(VENV)/installed
	$(BIN)/python benchmarks/gate.py

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
