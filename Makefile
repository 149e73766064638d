# Thin on purpose: every target is a script that also runs by itself.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# Handed on through the environment as they were written: neither make nor a shell expands a `$` in them.
override INVENTORY := $(value INVENTORY)
override LIMIT := $(value LIMIT)
override ARGS := $(value ARGS)
export INVENTORY LIMIT ARGS

.PHONY: help setup probe test lint unit reports sanity molecule soak bench docs lock clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo 'Variables: INVENTORY (default: inventories/local, this machine), LIMIT, ARGS (more for ansible-playbook),'
	@echo '           PYTHON (the interpreter for setup). Example: make probe INVENTORY=hosts.yml LIMIT=rack1'

setup:  ## Make .venv from requirements.lock (Python 3.12 to 3.14)
	@scripts/setup

probe:  ## Say whether nodes can serve Kimi K3, and why not; changes nothing
	@scripts/probe

test:  ## Run lint, unit, reports, sanity and molecule; a summary at the end
	@scripts/test

lint:  ## ansible-lint, yamllint, ruff and mypy
	@scripts/lint

unit:  ## pytest in the clone
	@scripts/unit

reports:  ## Reports in Chromium, promtool and xmllint
	@scripts/reports

sanity:  ## ansible-test on the built collection, on each supported ansible-core and Python; install and run it
	@scripts/sanity

molecule:  ## Roles and playbooks on real systemd nodes in containers
	@scripts/molecule

soak:  ## The whole matrix of systems and starts of the driver and of package transactions, on nodes in containers
	@scripts/soak

bench:  ## Measure, on many nodes: the probe, fleet checks and reports, an outage
	@scripts/bench

docs:  ## Write the generated documentation anew
	@scripts/docs

lock:  ## Write requirements.lock and the other locks anew (needs uv)
	@scripts/lock

clean:  ## Remove what setup and tests made; reports stay
	@scripts/clean
