#!/usr/bin/env bash
# What holds without running anything: format, lint, and the deployment files.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "Format"
unformatted=$(go list -f '{{.Dir}}' ./... | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	echo "These files are not formatted; run: make fmt" >&2
	echo "$unformatted" >&2
	exit 1
fi

step "Lint"
go tool -modfile=tools/go.mod golangci-lint run

if docker compose version >/dev/null 2>&1; then
	step "docker compose config"
	docker compose config --quiet
fi
