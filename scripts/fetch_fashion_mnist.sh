#!/usr/bin/env bash
# Installs Debian's package of the Fashion-MNIST photographs, if it is not there.
set -euo pipefail

if [ -d /usr/share/datasets/fashion-mnist ]; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "the photographs are missing; install Debian's package dataset-fashion-mnist" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq dataset-fashion-mnist >/dev/null
