#!/bin/sh
# unpack.sh VENV WHEELS LOCK [COMPILE]: a virtual environment from local wheels, nothing else.
# The same wheels give the same files: no pip inside, no time stamps, byte-code checked by hash or absent.
set -eu
venv=$1 wheels=$2 lock=$3
export SOURCE_DATE_EPOCH=946684800 PYTHONHASHSEED=0
python3 -m venv --without-pip "$venv"
if [ -s "$lock" ]; then
  python3 -m pip --python "$venv/bin/python" install --quiet --no-index --no-deps --no-compile \
    --no-cache-dir --disable-pip-version-check --root-user-action=ignore --no-warn-script-location \
    --find-links "$wheels" --require-hashes -r "$lock"
fi
if [ -n "${4:-}" ]; then
  "$venv/bin/python" -s -S "$4" "$venv"
fi
find "$venv" -exec touch -h -d @946684800 {} +
