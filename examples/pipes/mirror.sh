#!/bin/sh
# A copy of each frame into files or FIFOs, as tee has it. With ports: mirror.sh FROM TO COPY
set -eu
LINERATE=${LINERATE:-linerate}
case "${1:-}" in
    *:*)
        [ $# -eq 3 ] || { echo "usage: $0 FROM TO COPY | $0 FILE..." >&2; exit 2; }
        copy=$(mktemp -u)
        mkfifo "$copy"
        trap 'rm -f "$copy"' EXIT
        "$LINERATE" put "$3" < "$copy" &
        "$LINERATE" cat "$1" | tee "$copy" | "$LINERATE" put "$2"
        wait
        ;;
    *) exec tee -p "$@" ;;
esac
