# Every target is one command of hack/ or of cargo. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo

##@ The program
.PHONY: build release generate manifests alert-rules clean
build: ## compile the controller and the plugin for development
	$(CARGO) build --locked
release: ## compile them with the release profile: target/release/caip-openstack
	$(CARGO) build --locked --release
generate: ## write the generated files: the CRD, the chart's copies and the table of its values
	@hack/generate.sh
manifests: ## write the manifests for clusterctl and kubectl into out/ (IMAGE=registry/caip-openstack:tag)
	@hack/manifests.sh out $(IMAGE)
alert-rules: ## print the chart's alerts as a rule file, for a Prometheus without the operator
	@hack/alert-rules.sh
clean: ## remove cargo's output (the cache of the servers stays)
	$(CARGO) clean

##@ Releases (docs/image.md, docs/releases.md)
.PHONY: image image-test dist release-dry-run
image: ## build the container image for this machine, or IMAGE_PLATFORMS="linux/amd64 linux/arm64", in target/image
	@hack/image/build.sh
image-test: ## build the image, and test it unpacked and running; KUBECONFIG names a management cluster
	@hack/image/test.sh
dist: ## build everything that a release publishes in dist/ (IMAGE_SOURCE, IMAGE: docs/releases.md)
	@hack/dist.sh
release-dry-run: ## make a release on a registry on loopback: build, push, sign, verify, pull and run it
	@hack/release/dry-run.sh

##@ Checks
.PHONY: test unit installs e2e-capo compat soak perturb mutants fuzz deny fmt lint verify-generated
test: ## run the tests on servers of their own; installs what is missing, leaves nothing running
	@hack/test.sh
unit: ## run the tests that need no server
	$(CARGO) test --locked --lib --bins --test docs --test choice --test model --test simulation
installs: ## install as the documents say, from a registry on loopback, and execute every image that pods name
	@hack/test/installs.sh
e2e-capo: ## boot machines with the real CAPO and Nova, with addresses from our pools (CAPO_SOURCE: hack/env/capo.sh)
	@hack/e2e-capo.sh
compat: ## try other versions of Cluster API, Kubernetes, CAPO and OpenStack (CAPO_SOURCES)
	@hack/compat.sh
mutants: ## mutate the allocation core with cargo-mutants; its tests must notice every mutant
	@hack/mutants.sh
fuzz: ## fuzz every parser of received data with cargo-fuzz, 1,000,000 inputs each (FUZZ_RUNS)
	@hack/fuzz.sh
deny: ## check the dependencies with cargo-deny: licenses, sources and known vulnerabilities
	@hack/deny.sh
soak: ## run 100,000 generated histories of each of five kinds in simulated time (SOAK_HISTORIES)
	@hack/soak.sh
perturb: ## run the controllers with a crash after each write, with withheld events and with older views (about an hour)
	@hack/perturb.sh
fmt: ## format the Rust sources
	$(CARGO) fmt
lint: ## check format, lints and workflows; dependencies and shell scripts too with cargo-deny and shellcheck
	@hack/lint.sh
verify-generated: ## check that the generated files are up to date
	@hack/verify-generated.sh

##@ Demo and benchmarks
.PHONY: demo demo-stop dashboard bench bench-recovery bench-hostile bench-scale bench-capo
demo: ## show the controller step by step on real servers, which stay up to be used by hand
	@hack/demo.sh
demo-stop: ## stop the demo's servers and remove their data
	@CAIP_ENV=$${CAIP_ENV:-demo} hack/env/down.sh --purge
dashboard: ## draw the dashboard after eight minutes of work on real servers, for docs/monitoring.md
	@hack/dashboard.sh
bench: ## measure 20, 100 and 300 claims of each kind at once; writes bench.json
	@hack/bench.sh
bench-recovery: ## measure the recovery from kill -9 with 1,000 bound claims; writes bench-recovery.json
	@hack/bench.sh --kinds new --claims 1000 --no-settled --recovery --json bench-recovery.json
bench-hostile: ## measure an honest tenant with 1,000 claims beside ten hostile ones; writes bench-hostile.json
	@hack/bench.sh --hostile --json bench-hostile.json
bench-scale: ## measure 10,000 claims, in 100 pools and in one, beside a stand-in for OpenStack; writes bench-scale.json
	@hack/bench.sh --scale --json bench-scale.json
bench-capo: ## measure CAPO's built-in pool and ours in turn on the same servers (CAPO_SOURCE); writes bench-capo.json
	@CAIP_BESIDE_CAPO=1 hack/bench.sh --beside-capo --json bench-capo.json

##@ Servers on loopback (CAIP_ENV: name of the set; CAIP_PORT_BASE: its first port; CAIP_CACHE: the folder of all sets)
.PHONY: env-up env-down env-purge env tools
env-up: ## start MariaDB, Keystone, Neutron and two management clusters with Cluster API
	@hack/env/up.sh --second
env-down: ## stop them
	@hack/env/down.sh
env-purge: ## stop them and remove their data; the programs stay
	@hack/env/down.sh --purge
env: ## print the variables for a shell: eval "$$(make -s env)"
	@hack/env/env.sh
tools: ## build kubectl, both versions of clusterctl, and helm (env-up does so too)
	@hack/env/build-programs.sh kubectl clusterctl clusterctl-v1beta1 helm

##@ Help
.PHONY: help
help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } { gsub(/\$$\$$/, "$$") } \
	  /^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
