# Set-up, demo, tests and benchmarks. Everything happens in the environment .venv, which `make` builds itself.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test parity bench clean

VENV  := .venv
RUN   := $(VENV)/bin/python
STAMP := $(VENV)/flambeau-installed
PIP   := $(RUN) -m pip --disable-pip-version-check
comma := ,
INSTALL = $(PIP) install --no-build-isolation -e '.[demo$(comma)test]'
REQUIRES := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])
NATIVE_SOURCES := $(foreach name,*.pyx *.pxi *.pxd [!_]*.h,$(wildcard flambeau/runtime/$(name)))

help:
	@echo "make demo    train a small network on handwritten digits, save, reload, predict; writes demo.png"
	@echo "make test    run the tests; TESTS=tests/cli chooses some, OPTIONS='-x' is for pytest"
	@echo "make parity  compare with PyTorch's own test data; installs PyTorch into .venv-parity (skipped if that fails)"
	@echo "make bench   measure speed, on an idle machine; GROUPS='machine runtime' chooses some"
	@echo "make clean   remove the environment and every build product"
	@echo "Each sets up what it needs in $(VENV) first. PYTHON=/path/to/python3 chooses the Python for it."

demo: $(STAMP)
	@$(RUN) demo/digits.py

TESTS ?= tests
OPTIONS ?=
test: $(STAMP)
	@$(RUN) -m pytest $(TESTS) $(OPTIONS)

# PyTorch is the oracle here and nothing else: it lives in an environment of its own.
ORACLE := .venv-parity
ORACLE_STAMP := $(ORACLE)/installed
ORACLE_PACKAGES := torch==2.13.0 numpy llvmlite scipy pytest hypothesis expecttest
parity: $(STAMP)
	@if [ ! -e $(ORACLE_STAMP) ]; then \
	    echo "[set-up] installing PyTorch into $(ORACLE) ..."; log=$$(mktemp); \
	    if $(RUN) -m venv --clear $(ORACLE) >"$$log" 2>&1 \
	        && $(ORACLE)/bin/python -m pip --disable-pip-version-check install $(ORACLE_PACKAGES) >>"$$log" 2>&1; \
	    then touch $(ORACLE_STAMP); rm -f "$$log"; \
	    else tail -n 20 "$$log"; rm -f "$$log"; \
	        if [ "$$CI" = true ]; then echo "[parity] PyTorch could not be installed"; exit 1; fi; \
	        echo "[parity] skipped: PyTorch could not be installed"; exit 0; \
	    fi; \
	fi; \
	[ -e $(ORACLE_STAMP) ] || exit 0; \
	FLAMBEAU_PARITY=1 PYTHONPATH=. $(ORACLE)/bin/python -m pytest tests/parity $(OPTIONS)

GROUPS ?=
bench: $(STAMP)
	@$(RUN) benchmarks/run.py $(GROUPS)

clean:
	rm -rf $(VENV) $(ORACLE) build dist *.egg-info .pytest_cache .hypothesis demo.png digits.fl flambeau/compiler/packed
	rm -f flambeau/runtime/*.so flambeau/runtime/*.c flambeau/runtime/_*.h
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------------------------- set-up
# $(call step,TEXT,COMMAND): say what happens; the command's output is shown only if it fails.
define step
	@echo "[set-up] $(1) ..."; log=$$(mktemp); start=$$SECONDS; \
	if $(2) >"$$log" 2>&1; then echo "[set-up]   done in $$((SECONDS - start)) s"; rm -f "$$log"; \
	else cat "$$log"; echo "[set-up] failed: $(1)"; rm -f "$$log"; exit 1; fi
endef

$(RUN):
	@echo "[set-up] checking prerequisites: Python 3.11 to 3.13 with venv and headers, a C compiler"
	@python=$$(scripts/check_prerequisites.sh) && echo "[set-up] making $(VENV) with $$python" \
	    && "$$python" -m venv --clear $(VENV)

$(STAMP): pyproject.toml setup.py $(NATIVE_SOURCES) | $(RUN)
	$(call step,installing NumPy$(comma) llvmlite and the build tools,$(PIP) install $$($(RUN) -c '$(REQUIRES)'))
	$(call step,building Flambeau and installing what the demo and the tests use,$(INSTALL))
	@echo "[set-up] compiling the kernel pack ..."; $(VENV)/bin/flambeau pack \
	    || echo "[set-up]   not built: kernels will be compiled when they are first used"
	@touch $@
