#!/usr/bin/env bash
# Everything that must hold before a change goes in: format, vet, lint, the
# deployment files, and all tests with the race detector. Installs and starts
# what it needs, so it works on a fresh machine with nothing but Go.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "Preparing"
# The race detector needs a C compiler; pip needs venv and certificates.
tools/packages.sh gcc:gcc /usr/include/stdio.h:libc6-dev \
	/usr/share/doc/python3-venv:python3-venv /usr/sbin/update-ca-certificates:ca-certificates
tools/setup.sh
PORTICO_PYTOOLS=$(tools/pytools.sh)
export PORTICO_PYTOOLS

step "Format"
unformatted=$(go list -f '{{.Dir}}' ./... | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	echo "These files are not formatted; run: make fmt" >&2
	echo "$unformatted" >&2
	exit 1
fi

step "Vet"
go vet ./...

step "Lint"
go tool -modfile=tools/go.mod golangci-lint run

if docker compose version >/dev/null 2>&1; then
	step "docker compose config"
	docker compose config --quiet
fi

step "Tests"
tools/with-services.sh go test -race -shuffle=on -timeout 20m ./...
