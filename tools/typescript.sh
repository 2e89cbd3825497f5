#!/usr/bin/env bash
# Installs what makes and checks a TypeScript client from the API's document,
# pinned in tools/typescript, below .cache. Prints where it is, which the tests
# expect in PORTICO_TYPESCRIPT. Running it again does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$PWD/.cache/typescript
stamp=$(cat tools/typescript/package.json tools/typescript/package-lock.json | sha256sum | cut -d' ' -f1)
if [ "$(cat "$dir/.stamp" 2>/dev/null)" != "$stamp" ]; then
	rm -rf "$dir"
	mkdir -p "$dir"
	cp tools/typescript/package.json tools/typescript/package-lock.json "$dir"
	(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
	echo "$stamp" >"$dir/.stamp"
fi
echo "$dir/node_modules"
