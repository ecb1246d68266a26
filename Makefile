# Every target is one command of hack/ or of cargo; `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo

##@ The program
.PHONY: build release generate manifests alert-rules clean
build: ## compile the program for development
	$(CARGO) build --locked
release: ## compile it as it is shipped: target/release/caip-openstack
	$(CARGO) build --locked --release
generate: ## write the CRD from the Rust types, the chart's copies and the table of its values
	@hack/generate.sh
manifests: ## write what clusterctl and kubectl install into out/ (IMAGE=registry/caip-openstack:tag)
	@hack/manifests.sh out $(IMAGE)
alert-rules: ## print the chart's alerts as a rule file, for a Prometheus without the operator
	@hack/alert-rules.sh
clean: ## remove what cargo made (the servers' cache stays: see env-purge)
	$(CARGO) clean

##@ What is shipped (docs/image.md, docs/releases.md)
.PHONY: image image-test dist
image: ## the container image, for this machine or IMAGE_PLATFORMS="linux/amd64 linux/arm64", into target/image
	@hack/image/build.sh
image-test: ## build the image and check it, unpacked and running; KUBECONFIG names a management cluster
	@hack/image/test.sh
dist: ## what a release publishes, of the commit, into dist/ (IMAGE_SOURCE, IMAGE: docs/releases.md)
	@hack/dist.sh

##@ Checks
.PHONY: test unit soak mutants fmt lint verify-generated
test: ## everything, on real servers of its own; installs what it needs, leaves nothing running
	@hack/test.sh
unit: ## the tests that need no server, in seconds
	$(CARGO) test --locked --lib --bins --test docs --test choice --test model --test simulation
mutants: ## mutate the allocation core with cargo-mutants: its tests must notice every mutant
	@hack/mutants.sh
soak: ## 100,000 generated histories of the whole controllers in simulated time (SOAK_HISTORIES)
	@hack/soak.sh
fmt: ## format the Rust sources
	$(CARGO) fmt
lint: ## format and lints, warnings are errors; shell scripts too where shellcheck is installed
	@hack/lint.sh
verify-generated: ## fail when something is not what `make generate` writes
	@hack/verify-generated.sh

##@ Show and measure
.PHONY: demo demo-stop bench bench-recovery
demo: ## the main job step by step on real servers, which stay for going on by hand
	@hack/demo.sh
demo-stop: ## stop what the demo left running, and remove its data
	@CAIP_ENV=$${CAIP_ENV:-demo} hack/env/down.sh --purge
bench: ## 20, 100 and 300 claims at once, beside what plain HTTP clients reach; writes bench.json
	@hack/bench.sh
bench-recovery: ## kill -9 with 1,000 bound claims: how long until the next process serves, and what it asks for
	@hack/bench.sh --kinds new --claims 1000 --no-baseline --no-settled --recovery --json bench-recovery.json

##@ Servers on loopback (CAIP_ENV names a set, CAIP_PORT_BASE moves its ports, CAIP_CACHE the folder)
.PHONY: env-up env-down env-purge env tools
env-up: ## MariaDB, Keystone, Neutron; two of: etcd, kube-apiserver, kube-controller-manager, Cluster API
	@hack/env/up.sh --second
env-down: ## stop them
	@hack/env/down.sh
env-purge: ## stop them and remove their data; what was built stays
	@hack/env/down.sh --purge
env: ## print the variables for a shell: eval "$$(make -s env)"
	@hack/env/env.sh
tools: ## build kubectl, clusterctl and helm alone (env-up builds them too)
	@hack/env/build-programs.sh kubectl clusterctl helm

##@ Help
.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } { gsub(/\$$\$$/, "$$") } \
	  /^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
