# `make book` builds the book, `make test` proves it. Each target also works as the first command in a fresh clone.
.DEFAULT_GOAL := help
.NOTPARALLEL:

# the first interpreter that is new enough and can make a virtual environment
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
# an environment of your own: make test PY=/path/to/python
PY ?= .venv/bin/python
READY := $(if $(filter .venv/%,$(PY)),.venv/ready)
STUDY ?= cells
# the dearest first, so that at the end no process waits for one that has just begun
DEAREST := $(patsubst %,book/%.ipynb,beyond/shared_draws use/classifier results/sure_and_wrong validate/claims ideas/logistic roads/bbvi \
  beyond/learned_draws roads/hmc roads/nuts roads/gibbs results/does_it_work roads/posterior roads/mle network/simulate network/cavi \
  beyond/climbs start/why beyond/shared_means engineering/quadrature network/predict roads/diagnostics beyond/streaming engineering/fit \
  use/restarts roads/one_table beyond/regression network/elbo beyond/regressor validate/validate_yours)
NOTEBOOKS ?= $(DEAREST) $(sort $(filter-out $(DEAREST),$(wildcard book/*/*.ipynb)))

export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
# the last bits of stored numbers are those of the NumPy kernel, whether numba is there or not
export CMN_KERNEL := numpy
# the chapters import the experiments, which are not installed; .venv knows them by its checkout.pth, so that Jupyter finds them too
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
ifneq ($(wildcard ../shared/data),)
export CMN_DATA ?= $(abspath ../shared/data)
endif

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

.venv/ready: requirements.txt pyproject.toml conformance/pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 with venv found; try make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	.venv/bin/python -m pip install -qq --disable-pip-version-check -r requirements.txt
	.venv/bin/python -c "import site; print('$(CURDIR)', file=open(site.getsitepackages()[0] + '/checkout.pth', 'w'))"
	@touch $@

book: check html        ## the book, in _build/html
	@echo "Open file://$(CURDIR)/_build/html/index.html"

# one after the other: more processes than cores make all of them dearer by a quarter
test: check lint unit html gate browser  ## everything, in about ten minutes

# notebooks, package and generated pages agree
check: $(READY)
	$(PY) tools/tangle.py --check
	$(PY) tools/pages.py --check
	$(PY) conformance/dashboard.py --check

lint: $(READY)
	$(PY) -m ruff check .

# what a notebook cannot check about itself
unit: $(READY)
	$(PY) -m pytest -q -n 2 --dist worksteal tests --ignore tests/house/test_browser.py --ignore tests/house/test_widgets.py

# each in a process of its own, forked from one that has imported the libraries
gate: $(READY)          ## run every notebook and compare each output with the stored one
	$(PY) -m pytest -q -p warm_kernels --nbval --nbval-current-env --nbval-cell-timeout=600 --nbval-kernel-startup-timeout=600 --nbval-sanitize-with tools/nbval.cfg -n 2 --dist loadscope --no-loadscope-reorder $(NOTEBOOKS)

# render the stored notebooks; a warning is an error; from nothing each time that a file is newer than the book: it takes seconds, and a
# page that is not read again does not repeat its warnings
html: $(READY)
	@if [ "$$(cat _build/whole 2>/dev/null)" = "book of $$CMN_BASE_URL $$CMN_REPO_URL" ] && \
	    [ -z "$$(find . \( -path './.*' -o -path ./_build -o -path ./build -o -name __pycache__ -o -name '*.egg-info' \) -prune -o -type f -newer _build/whole -print -quit)" ]; \
	then echo "_build/html is that of these files"; else rm -rf _build && \
	$(dir $(PY))jupyter-book build . -W --keep-going -q && echo "book of $$CMN_BASE_URL $$CMN_REPO_URL" > _build/whole; fi

# look at the built book in a real browser
browser: $(READY)
	$(PY) -m pytest -q -n 2 --dist worksteal tests/house/test_browser.py tests/house/test_widgets.py

test-full: test         ## and all mutants, long runs, the wheel, the coverage, the arithmetic of other processors
	$(PY) -m pytest -q -n 2 --dist worksteal -m "slow or not slow" --cov cmn_literate --cov-fail-under 95 tests --ignore tests/house/test_browser.py --ignore tests/house/test_widgets.py --ignore tests/house/test_processors.py
	$(PY) -m pytest -q -n 2 --dist worksteal -m slow tests/house/test_browser.py tests/house/test_widgets.py
	$(PY) -m pytest -q -s -m slow tests/house/test_processors.py

pdf: html               ## the book as one file, _build/book.pdf
	$(PY) tools/pdf.py

package: $(READY)       ## build the wheel, install it in an empty environment, fit
	$(PY) -m pytest -q -m slow tests/house/test_wheel.py

notebooks: $(READY)     ## tangle and execute every chapter, then write the generated pages
	$(PY) tools/tangle.py
	$(PY) tools/execute.py --jobs 2
	$(PY) tools/pages.py

bench: $(READY)         ## time per sweep against its floor
	CMN_KERNEL= $(PY) benchmarks/sweep.py
	$(PY) benchmarks/roads.py
	$(PY) benchmarks/forecasts.py

scale: $(READY)         ## time and memory from a thousand rows to ten million, and the ways to fit a file side by side
	$(PY) benchmarks/scale.py

results: $(READY)       ## run what is missing of a study: make results STUDY=restarts (stop and start as you like)
	$(PY) -m experiments run $(STUDY)

results-check: $(READY) # run a random sample of the stored cells again and compare
	$(PY) -m experiments check $(STUDY)

vectors: $(READY)       ## compute the conformance vectors again; git diff should be empty (minutes)
	$(PY) conformance/oracle/generate.py

# requirements.txt from requirements.in (needs uv)
lock:
	uv pip compile --universal --python-version 3.11 --no-annotate --no-header requirements.in -o requirements.txt
	printf '%s\n' "-e ." "-e ./conformance" >> requirements.txt

clean:                  ## remove what the other targets made, but for .venv
	rm -rf _build build dist *.egg-info conformance/build conformance/*.egg-info .pytest_cache .ruff_cache .hypothesis .coverage

.PHONY: help book test check lint unit gate html browser test-full pdf package notebooks bench scale results results-check vectors lock clean
