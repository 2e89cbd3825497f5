#!/usr/bin/env bash
# Creates the Python tools that the tests of sdkgen use: mypy and ruff, pinned,
# in a virtual environment below .cache. Prints the path of the environment,
# which the tests expect in PORTICO_PYTOOLS. Running it again does nothing.
#
# PYTHON chooses the interpreter; the default is the system's.
set -euo pipefail

mypy_version=2.4.1
ruff_version=0.17.5

root=$(cd "$(dirname "$0")/.." && pwd)
venv="$root/.cache/pytools"
stamp="$venv/mypy-$mypy_version-ruff-$ruff_version"

python=${PYTHON:-/usr/bin/python3}
if [ ! -x "$python" ]; then
	python=$(command -v python3) || {
		echo "pytools: python3 is missing; install it, for example with: apt-get install python3 python3-venv" >&2
		exit 1
	}
fi

if [ ! -e "$stamp" ]; then
	rm -rf "$venv"
	mkdir -p "$(dirname "$venv")"
	if ! "$python" -m venv "$venv" >&2; then
		rm -rf "$venv"
		echo "pytools: $python cannot create a virtual environment; install it, for example with: apt-get install python3-venv" >&2
		exit 1
	fi
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
		"mypy==$mypy_version" "ruff==$ruff_version" >&2
	touch "$stamp"
fi
echo "$venv"
