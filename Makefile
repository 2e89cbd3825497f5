# Everything that is done with this repository, one command each. CI calls the
# same targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# What tools/build.sh compiles with, so that everything here shares what is
# compiled.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -tags=nomsgpack)

# How long each fuzz target runs.
FUZZTIME ?= 30s

# Who tries the product from here wants programs to run: PTC is on unless the
# environment, .env or the configuration file says otherwise. Without .env,
# tools/first-env.sh writes one that says so: the program reads it itself.
PTC_ON := tools/first-env.sh; grep -Eqs '^[ \t]*(export[ \t]+)?PTC_ENABLED=.' .env || export PTC_ENABLED=$${PTC_ENABLED:-true}

.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z\/-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: setup build ## Start the server on :5800 (installs what is missing)
	@$(PTC_ON); exec bin/portico serve

.PHONY: demo
demo: setup build ## Run a program with tool calls in the sandbox and watch it
	@$(PTC_ON); exec bin/portico demo

.PHONY: demo-agent
demo-agent: setup build ## Let an agent with a scripted model work, and see what it costs
	@$(PTC_ON); exec bin/portico demo agent

.PHONY: demo-clients
demo-clients: setup build ## Ask through five clients of model vendors (ARGS=--configured asks your model)
	@$(PTC_ON); exec bin/portico demo clients --vendors "$$(tools/vendors.sh)" $(ARGS)

.PHONY: demo-tools
demo-tools: setup build ## Bring tools from anywhere into programs, step by step
	@$(PTC_ON); exec bin/portico demo tools

.PHONY: test
test: ## Test everything (installs and starts what it needs)
	@tools/test.sh test

.PHONY: race
race: ## Run the tests again, with the race detector and each on the other database
	@tools/test.sh race

.PHONY: test-k8s
test-k8s: setup build ## Test with a real control plane of Kubernetes (builds it first: half an hour, once)
	@PORTICO_KUBERNETES=$$(tools/kubernetes.sh) && export PORTICO_KUBERNETES CI=true && \
		go test -tags=nomsgpack,kubernetes -count=1 -v -timeout 15m ./dev/kubernetes $(ARGS)

.PHONY: bench
bench: setup ## Measure against the baselines, in one run (ARGS="-only calls,weight")
	@PORTICO_RUNSC=$$(tools/runsc.sh) PORTICO_CHROMIUM=$$(tools/chromium.sh) tools/with-services.sh --durable go run ./dev/bench $(ARGS)

.PHONY: load
load: setup ## Put the server under load for a quarter of an hour and draw it (ARGS="-duration 1m")
	@tools/with-services.sh --durable go run ./dev/load $(ARGS)

.PHONY: drill
drill: setup ## Back a server up at work, destroy it, and restore it elsewhere
	@tools/with-services.sh go run ./dev/drill

.PHONY: test-upgrade
test-upgrade: setup ## Have the last release and this version work on one database (needs its history)
	@old=$$(tools/last-release.sh); exec tools/with-services.sh go run ./dev/drill "$$old"

.PHONY: soak
soak: setup ## Run 20,000 executions and look at what they leave
	@go run ./dev/bench -only soak

.PHONY: mutants
mutants: ## Break the program in many ways and see whether tests notice (ONLY="name...")
	@dev/mutants.sh $(ONLY)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME each
	@tools/fuzz.sh $(FUZZTIME)

.PHONY: build
build: ## Build bin/portico and bin/sdkgen
	@tools/build.sh

.PHONY: setup
setup: ## Install bubblewrap and Python, build the sandbox's Python root
	@tools/setup.sh

.PHONY: lint
lint: ## Check format, code and deployment files without running them
	@tools/lint.sh

.PHONY: fmt
fmt: ## Format the Go code
	@git ls-files --cached --others --exclude-standard '*.go' | xargs go tool -modfile=tools/go.mod gofumpt -w

.PHONY: db/reset
db/reset: ## Delete the local SQLite database; the next start makes a new one
	@rm -f data/portico.db data/portico.db-*

.PHONY: clean
clean: ## Delete what was built; keeps ./data
	@rm -rf bin .cache
