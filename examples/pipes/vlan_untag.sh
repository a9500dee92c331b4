#!/bin/sh
# Takes the tag of one VLAN (1, or the one given) off; all else passes as it is. Alone a filter; with two ports between them.
set -eu
LINERATE=${LINERATE:-linerate}
if [ $# -ge 2 ]; then
    "$LINERATE" cat "$1" | "$0" "${3:-1}" | "$LINERATE" put "$2"
    exit
fi
# Priority and drop bits are the first digit; the identifier is the other three.
vid=$(printf '%03X' "${1:-1}")
exec sed -u -e "s/^\\(.\\{12\\} .\\{12\\}\\) 8100 .${vid%??} ${vid#?} \\(..\\) \\(..\\)/\\1 \\2\\3/"
