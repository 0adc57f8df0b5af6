# `make demo` and `make test` set up what they need: a virtual environment in .venv, the packages, and on Debian or
# Ubuntu, as root or with sudo, the libraries that draw without a screen. A second run starts at once.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.PHONY: demo test soak lint docs interop interop-readers interop-envs check clean

VENV := .venv
BIN := $(VENV)/bin
GL_PACKAGES := libegl1 libgl1-mesa-dri libopengl0
PYTHON ?=
DEMO_ARGS ?=
SEED ?= 1
SOAK_ARGS ?=
TEST_ARGS ?=

demo: $(VENV)/.installed $(VENV)/.draws
	@$(BIN)/lucky-recorder demo $(DEMO_ARGS)

test: $(VENV)/.installed-dev $(VENV)/.draws
	$(BIN)/python -m pytest --ignore=tests/interop -n auto --dist loadfile $(TEST_ARGS)

# Everything that is tried on other people's software.
interop: interop-readers interop-envs

# What others read of a session. Their environments are built once, in ~/.cache/lucky_recorder/interop or wherever
# LUCKY_RECORDER_INTEROP says; what cannot be built here is skipped, and says why.
interop-readers: $(VENV)/.installed-interop $(VENV)/.draws
	bash tests/interop/lerobot_env.sh || echo "LeRobot's environment cannot be built here: its tests are skipped."
	$(BIN)/python -m pytest tests/interop $(TEST_ARGS)

# What others simulate: each family of environments with the MuJoCo it needs.
interop-envs: $(VENV)/.installed-dev $(VENV)/.draws
	for family in dm_control robosuite metaworld gymnasium_robotics stable_baselines3 trajectories; do
	  $(BIN)/python tests/interop/envs/record_$$family.py
	done

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.installed-dev $(VENV)/.draws
	$(BIN)/python docs/images/streams.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: lint docs test

# Attacks that take long, on every core. It prints its seed, and goes on where it was interrupted.
soak: $(VENV)/.installed-dev $(VENV)/.draws
	$(BIN)/python -m tests.soak --seed $(SEED) $(SOAK_ARGS)

clean:
	rm -rf $(VENV) site dist

# Shell function `install PACKAGE...`: Debian packages, as root or with sudo; else it prints the command and fails.
define INSTALL
install() {
  local sudo=
  if [ "$$(id -u)" != 0 ]; then sudo="sudo -n"; fi
  if ! command -v apt-get >/dev/null || ! $$sudo true 2>/dev/null; then
    echo "Please install what is missing; on Debian or Ubuntu: sudo apt-get install $$*"
    return 1
  fi
  echo "Installing Debian packages: $$*"
  $$sudo apt-get update -qq
  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "$$@" >/dev/null
}
endef

# The first Python that is new enough makes the environment. Debian keeps what `venv` needs in a package of its own.
$(VENV)/.made:
	@$(INSTALL)
	is_new() { command -v "$$1" >/dev/null && "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
	python=
	for name in $(PYTHON) python3 python3.13 python3.12 python3.11; do
	  if is_new "$$name"; then python=$$name; break; fi
	done
	if [ -z "$$python" ]; then
	  echo "No Python 3.11 or later was found. Install one, or say where it is: make PYTHON=/path/to/python3"
	  exit 1
	fi
	if ! "$$python" -m venv $(VENV) >/dev/null 2>&1; then
	  install "$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
	  "$$python" -m venv --clear $(VENV)
	fi
	touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	@echo "Installing the package into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.made pyproject.toml
	@echo "Installing the package and its tools into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-interop: $(VENV)/.installed-dev
	@echo "Installing the readers that sessions are tried on into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --editable '.[dev,interop,view]'
	touch $@

# Without OpenGL everything works but pictures, so what is missing here stops nothing.
$(VENV)/.draws: | $(VENV)/.installed
	@$(INSTALL)
	draws() { $(BIN)/python -c 'from lucky_recorder.capture.draw.context import make_context; make_context()' 2>/dev/null; }
	if draws || { install $(GL_PACKAGES) && draws; }; then
	  touch $@
	else
	  echo "OpenGL does not work here: there will be no pictures."
	fi
