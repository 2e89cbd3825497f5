#!/usr/bin/env bash
# Prepares a machine for `make run`: bubblewrap, the system's Python, and
# the file system that sandboxes run on. Running it again changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "Preparing this machine: seconds, or some minutes the first time" >&2
echo "  programs (bubblewrap, python3); what is missing is installed with apt-get, about a minute" >&2
# Not any python3 of the PATH: one of a version manager is a slow shell script.
tools/packages.sh bwrap:bubblewrap /usr/bin/python3:python3
echo "  the sandbox's own Python with its packages; about a minute when it is built" >&2
root=$(tools/sandbox-root.sh)
echo "  ready: $root" >&2
