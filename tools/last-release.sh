#!/usr/bin/env bash
# Builds the server of the last release into .cache/last-release and prints where it
# is. That is the newest tag, or without tags the commit in migrations/LAST_RELEASE;
# PORTICO_LAST_RELEASE names another one.
set -euo pipefail
cd "$(dirname "$0")/.."

name=${PORTICO_LAST_RELEASE:-$(git describe --tags --abbrev=0 2>/dev/null || cat migrations/LAST_RELEASE)}
if ! commit=$(git rev-parse --verify --quiet "$name^{commit}"); then
	echo "The last release, $name, is not in this clone: get its history with git fetch --unshallow --tags." >&2
	exit 1
fi
into=$PWD/.cache/last-release/$commit
if [ ! -x "$into/portico" ]; then
	echo "Building the last release, $name; this happens once." >&2
	rm -rf "$into"
	mkdir -p "$into/source"
	git archive "$commit" | tar -x -C "$into/source"
	(cd "$into/source" && go build -trimpath -tags=nomsgpack -ldflags="-s -w" -o "$into/portico.new" ./cmd/api) >&2
	rm -rf "$into/source"
	mv "$into/portico.new" "$into/portico"
fi
echo "$into/portico"
