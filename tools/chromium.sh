#!/usr/bin/env bash
# Finds a Chromium, or installs Debian's, and prints its path. The tests of the
# pages for people open them in it, and expect its path in PORTICO_CHROMIUM.
# Running it again changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

# A program that cannot say its version is none: Ubuntu's is a script that asks
# for a snap.
works() { "$1" --version >/dev/null 2>&1; }

for name in chromium google-chrome-stable google-chrome; do
	if works "$name"; then
		command -v "$name"
		exit 0
	fi
done
if [ "$(. /etc/os-release && echo "$ID")" = ubuntu ]; then
	echo "Ubuntu has no package of Chromium, only a snap, which cannot open the folders of tests." >&2
	echo "Install Google Chrome from its .deb file, then run this again: it looks for google-chrome." >&2
	exit 1
fi
tools/packages.sh /usr/bin/chromium:chromium
if ! works /usr/bin/chromium; then
	echo "/usr/bin/chromium does not start. See what it says: /usr/bin/chromium --version" >&2
	exit 1
fi
echo /usr/bin/chromium
