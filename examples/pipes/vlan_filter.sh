#!/bin/sh
# Passes frames of one VLAN (2, or the one given). Alone a filter; with two ports between them.
set -eu
LINERATE=${LINERATE:-linerate}
if [ $# -ge 2 ]; then
    "$LINERATE" cat "$1" | "$0" "${3:-2}" | "$LINERATE" put "$2"
    exit
fi
vid=$(printf '%03X' "${1:-2}")
exec grep --line-buffered "^.\\{12\\} .\\{12\\} 8100 .${vid%??} ${vid#?}"
