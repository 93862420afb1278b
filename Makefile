# make demo: environment, default model, one real extraction.   make test: the whole test suite.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
STAMP   = $(VENV)/.installed

ifeq ($(shell uname -s),Darwin)
EXTRAS = dev
else
EXTRAS = cpu,dev
endif

.PHONY: demo test check fix docs examples clean
.DEFAULT_GOAL := demo

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	touch $@

demo: $(STAMP)
	$(BIN)/fillengine models fetch smollm2
	$(BIN)/fillengine extract --schema docs/examples/fault-report.schema.json --stats docs/examples/fault-report.txt

test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist worksteal $(TARGET)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

fix: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/python docs/generate.py

# What the examples of the pages print; runs the default model.
examples: $(STAMP)
	$(BIN)/python docs/run_examples.py docs/forms.md

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
