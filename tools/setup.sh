#!/usr/bin/env bash
# Prepares a machine for `make run`: bubblewrap, the system's Python, and
# the file system that sandboxes run on. Running it again changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not any python3 of the PATH: one of a version manager is a slow shell script.
tools/packages.sh bwrap:bubblewrap /usr/bin/python3:python3
root=$(tools/sandbox-root.sh)
echo "The sandbox's Python root is $root" >&2
