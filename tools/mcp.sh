#!/usr/bin/env bash
# Installs MCP servers that others wrote, for the tests, below .cache: four from
# npm, pinned in tools/mcp, the Python package mcp of both eras of the protocol,
# and the examples of the Go SDK that the server itself uses. Prints the folder,
# which the tests expect in PORTICO_MCP: node_modules, python, python-legacy and
# go are in it. Running it again does nothing.
#
# PYTHON chooses the interpreter; the default is the system's.
set -euo pipefail
cd "$(dirname "$0")/.."

python_packages=(mcp==2.3.0)
python_legacy_packages=(mcp==1.30.0)
go_examples=(server/everything server/hello server/memory server/sequentialthinking server/toolschemas)

dir=$PWD/.cache/mcp
sdk=$(go list -m -f '{{.Dir}} {{.Version}}' github.com/modelcontextprotocol/go-sdk)
stamp=$({
	cat tools/mcp/package.json tools/mcp/package-lock.json
	printf '%s\n' "${python_packages[@]}" "${python_legacy_packages[@]}" "${go_examples[@]}" "${sdk##* }"
} | sha256sum | cut -d' ' -f1)
if [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$stamp" ]; then
	echo "$dir"
	exit 0
fi

rm -rf "$dir"
mkdir -p "$dir/go"
cp tools/mcp/package.json tools/mcp/package-lock.json "$dir"
(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)

python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=$(command -v python3)
"$python" -m venv "$dir/python" >&2
"$dir/python/bin/python" -m pip install --quiet --disable-pip-version-check "${python_packages[@]}" >&2
"$python" -m venv "$dir/python-legacy" >&2
"$dir/python-legacy/bin/python" -m pip install --quiet --disable-pip-version-check "${python_legacy_packages[@]}" >&2

for example in "${go_examples[@]}"; do
	go build -o "$dir/go/${example##*/}" "github.com/modelcontextprotocol/go-sdk/examples/$example" >&2
done
echo "$stamp" >"$dir/.stamp"
echo "$dir"
