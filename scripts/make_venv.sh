#!/usr/bin/env bash
# Makes a virtual environment: make_venv.sh FOLDER. Takes $PYTHON (default python3) or the first newer one there is;
# on Debian and as root it installs python3-venv where that is missing.
set -euo pipefail

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

python=
for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if recent "$candidate"; then python=$candidate && break; fi
done
if [ -z "$python" ]; then
    echo "dawnrun needs Python 3.11 or newer; none was found (set PYTHON=/path/to/python3)" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
    else
        echo "$python cannot make virtual environments; install python3-venv (Debian: apt-get install python3-venv)" >&2
        exit 1
    fi
fi
rm -rf "$1"
"$python" -m venv "$1" || { rm -rf "$1"; exit 1; }
