#!/usr/bin/env bash
# Installs axe-core, which finds what people with disabilities trip over, for the
# tests of the console, below .cache. Prints the path of its script, which the tests
# expect in PORTICO_AXE. Running it again does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$PWD/.cache/axe
script=$dir/node_modules/axe-core/axe.min.js
stamp=$(cat tools/axe/package.json tools/axe/package-lock.json | sha256sum | cut -d' ' -f1)
if [ "$(cat "$dir/.stamp" 2>/dev/null)" != "$stamp" ]; then
	rm -rf "$dir"
	mkdir -p "$dir"
	cp tools/axe/package.json tools/axe/package-lock.json "$dir"
	(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
	echo "$stamp" >"$dir/.stamp"
fi
echo "$script"
