# Every target sets up its own environment: nothing but Python 3.11 and make is needed.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help train quick test lint types format docs wheel bench figures soak release clean
.DEFAULT_GOAL := help

help: ## Show this help
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# Rebuilt when the dependencies change; the marker is written last, so that an
# interrupted installation is done again.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	@touch $@

train: $(READY) ## Train TT-POIS on the dam (a minute); writes to runs/
	$(BIN)/python jobs/train.py $(ARGS)

# Ray cannot be imported in it: whatever needs Ray belongs into `make test`.
quick: $(READY) ## Run the tests that need no Ray (a minute)
	$(BIN)/python -m pytest -n 2 --without-ray \
		tests/boundary tests/numerics tests/plans tests/data tests/policies tests/estimators tests/optim \
		tests/envs tests/rollout tests/test_layers.py

# Twice as many processes as two cores: most tests wait for processes of Ray.
test: $(READY) ## Run all tests
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(READY) ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## Check types
	$(BIN)/mypy

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY) ## Build the site; writes to site/ (open site/index.html)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

wheel: $(READY) ## Build the wheel; writes to dist/
	rm -rf dist
	$(BIN)/python -m build

# It asks for an older gymnasium and NumPy, so it cannot be in the other environment.
.sample-factory/.ready: constraints.txt
	$(PYTHON) -m venv .sample-factory
	.sample-factory/bin/python -m pip install --quiet "$$(grep ^torch== constraints.txt)" sample-factory==2.1.1
	@touch $@

bench: $(READY) .sample-factory/.ready ## Measure beside the alternatives (two hours); writes docs/performance
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	TTRAY_SAMPLE_FACTORY=.sample-factory/bin/python $(BIN)/python -m benchmarks --results docs/performance --page docs/performance.md

figures: $(READY) ## Make the paper's figures (many hours; ARGS=--draw-only: from finished trials); writes docs/results
	$(BIN)/python -m paper all --results docs/results --page docs/results.md $(ARGS)

soak: $(READY) ## Train beside a killer and compare every bit (30 minutes); writes to runs/
	$(BIN)/ttray soak --progress $(ARGS)

release: $(READY) ## Check that this commit can be released (tests, wheel, ranges, image: half an hour)
	.ci/release

clean: ## Remove the environment and caches
	rm -rf $(VENV) .sample-factory site .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
