#!/usr/bin/env bash
# Builds a control plane of Kubernetes below .cache, unless it is there, and prints
# its folder: etcd, kube-apiserver, kubectl, the controller of agent-sandbox and the
# definitions of its resources (crds). make test-k8s runs against it. Which versions
# these are, tools/kubernetes/go.mod says.
#
# The first time takes about half an hour of processor time. One package is compiled
# at a time, at the lowest priority, so that the machine stays usable.
set -euo pipefail
cd "$(dirname "$0")/.."

module=$PWD/tools/kubernetes
# Another version is another folder.
folder=$PWD/.cache/kubernetes/$(cksum <"$module/go.sum" | cut -d' ' -f1)
if [ ! -e "$folder/crds" ]; then
	mkdir -p "$folder"
	exec 9>"$folder/lock"
	if ! flock -n 9; then
		echo "Waiting for another build of the control plane." >&2
		flock 9
	fi
fi
if [ ! -e "$folder/crds" ]; then
	echo "Building etcd, kube-apiserver, kubectl and agent-sandbox; this happens once and takes half an hour." >&2
	export CGO_ENABLED=0 GOFLAGS=-mod=readonly
	in_module() { (cd "$module" && "$@"); }
	kubernetes=$(in_module go list -m -f '{{.Version}}' k8s.io/kubernetes)
	minor=${kubernetes#v1.}
	# Unless it is told its version, the API server says that it has none.
	of=k8s.io/component-base/version
	flags="-s -w -X $of.gitVersion=$kubernetes -X $of.gitMajor=1 -X $of.gitMinor=${minor%%.*}"
	build() { in_module nice -n 19 go build -p 1 -trimpath -ldflags "$flags" -o "$folder/$1" "$2" >&2; }
	build etcd go.etcd.io/etcd/server/v3
	build agent-sandbox-controller sigs.k8s.io/agent-sandbox/cmd/agent-sandbox-controller
	build kubectl k8s.io/kubernetes/cmd/kubectl
	build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
	# Last: they say that all the rest is there.
	cp -r --no-preserve=mode "$(in_module go list -m -f '{{.Dir}}' sigs.k8s.io/agent-sandbox)/k8s/crds" "$folder/crds.new"
	mv "$folder/crds.new" "$folder/crds"
fi
echo "$folder"
