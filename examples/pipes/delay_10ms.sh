#!/bin/bash
# Each frame 10 ms later: what stands in front of a line is when it came, in ticks of 8 ns; when it is to leave is so many more.
# Alone it is a filter; with two ports it stands between them.
set -eu
LINERATE=${LINERATE:-linerate}
if [ $# -eq 2 ]; then
    "$LINERATE" cat -t "$1" | "$0" | "$LINERATE" put "$2"
    exit
fi
[ $# -eq 0 ] || { echo "usage: $0 [PORT PORT]" >&2; exit 2; }
while read -r stamp frame; do
    [[ $stamp =~ ^[0-9A-F]{16}$ ]] || continue
    printf '%016X %s\n' $((16#$stamp + 10000000 / 8)) "$frame"
done
