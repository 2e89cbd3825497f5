#!/usr/bin/env bash
# Builds gVisor's runsc, once, and prints its path. The driver "gvisor" runs
# programs with it: SANDBOX_DRIVER=gvisor SANDBOX_RUNSC=$(tools/runsc.sh)
set -euo pipefail
cd "$(dirname "$0")/.."

version=v0.0.0-20260905035102-160fafc42237
binary=$PWD/.cache/bin/runsc-$version
if [ ! -x "$binary" ]; then
	echo "Building gVisor $version; this happens once and takes some minutes." >&2
	mkdir -p "$(dirname "$binary")"
	# With C it would start nothing: its root holds no loader.
	CGO_ENABLED=0 GOBIN=$(dirname "$binary") GOFLAGS='' go install -trimpath "gvisor.dev/gvisor/runsc@$version" >&2
	mv "$(dirname "$binary")/runsc" "$binary"
fi
echo "$binary"
