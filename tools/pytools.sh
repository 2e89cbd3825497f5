#!/usr/bin/env bash
# Creates the Python tools that tests use, pinned, in a virtual environment below
# .cache: mypy and ruff for sdkgen, the client libraries of the vendors whose
# services have stand-ins, and for the API's document schemathesis, which tries
# the server by it, a generator of clients, and what clients/python is built with and
# stands on. Prints the path of the environment, which the tests expect in
# PORTICO_PYTOOLS. Running it again does nothing.
#
# PYTHON chooses the interpreter; the default is the system's.
set -euo pipefail

mypy_version=2.4.1
ruff_version=0.17.5
vendors=(composio==0.29.0 notion-client==3.1.0 perplexityai==0.46.1 apify-client==3.4.0 jina-cli==0.3.0)
document=(schemathesis==4.32.5 openapi-python-client==0.29.1)
client=(httpx==0.28.1 hatchling==1.33.0)

root=$(cd "$(dirname "$0")/.." && pwd)
venv="$root/.cache/pytools"
stamp="$venv/$(printf '%s\n' "mypy==$mypy_version" "ruff==$ruff_version" "${vendors[@]}" "${document[@]}" "${client[@]}" | sha256sum | cut -c1-16)"

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
		"mypy==$mypy_version" "ruff==$ruff_version" "${vendors[@]}" "${document[@]}" "${client[@]}" >&2
	touch "$stamp"
fi
echo "$venv"
