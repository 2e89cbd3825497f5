#!/usr/bin/env bash
# Installs the clients that vendors of models publish, for the tests, below .cache:
# those of npm, pinned in tools/vendors, and those of PyPI. Prints the folder, which
# the tests expect in PORTICO_VENDORS: node_modules and python are in it. Running it
# again does nothing.
#
# PYTHON chooses the interpreter; the default is the system's.
set -euo pipefail
cd "$(dirname "$0")/.."

python_packages=(anthropic==2.12.0 openai==3.54.0 openai-agents==0.24.0)

dir=$PWD/.cache/vendors
stamp=$({
	cat tools/vendors/package.json tools/vendors/package-lock.json
	printf '%s\n' "${python_packages[@]}"
} | sha256sum | cut -d' ' -f1)
if [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$stamp" ]; then
	echo "$dir"
	exit 0
fi

rm -rf "$dir"
mkdir -p "$dir"
cp tools/vendors/package.json tools/vendors/package-lock.json "$dir"
# Some declare a newer Node than they need; the pins are those that the tests ran.
(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)

python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=$(command -v python3)
"$python" -m venv "$dir/python" >&2
"$dir/python/bin/python" -m pip install --quiet --disable-pip-version-check "${python_packages[@]}" >&2
echo "$stamp" >"$dir/.stamp"
echo "$dir"
