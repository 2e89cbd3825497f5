#!/usr/bin/env bash
# Runs every fuzz target of the repository for the given time each (30s).
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-30s}
# go test -list builds every test binary, so only packages with a target are
# asked; testdata keeps the inputs that once failed.
go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r package dir; do
	{ grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null || true; } | while read -r _ target; do
		echo "== $package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" </dev/null
	done
done
