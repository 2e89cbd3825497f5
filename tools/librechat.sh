#!/usr/bin/env bash
# Installs the published LibreChat clients that the tests drive, pinned in
# tools/librechat, below .cache. Prints where they are, which the tests expect
# in PORTICO_LIBRECHAT. Running it again does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$PWD/.cache/librechat
stamp=$(cat tools/librechat/package.json tools/librechat/package-lock.json | sha256sum | cut -d' ' -f1)
if [ "$(cat "$dir/.stamp" 2>/dev/null)" != "$stamp" ]; then
	rm -rf "$dir"
	mkdir -p "$dir"
	cp tools/librechat/package.json tools/librechat/package-lock.json "$dir"
	(cd "$dir" && npm ci --ignore-scripts --legacy-peer-deps --no-audit --no-fund --loglevel=error >&2)
	echo "$stamp" >"$dir/.stamp"
fi
echo "$dir/node_modules"
