#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Writes docs/reference.md and docs/man/nameway.yaml.5 from the table of keys:  regenerate.sh NAMEWAYD
set -eu
namewayd=$1
here=$(dirname "$0")
"$namewayd" --print-reference >"$here/../reference.md"
python3 "$here/reference_to_man.py" "$here/../reference.md" "$here/nameway.yaml.5.in" >"$here/../man/nameway.yaml.5"
