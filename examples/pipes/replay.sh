#!/bin/sh
# Records frames of a port into a file, or sends a file's frames again.
#   replay.sh record PORT FILE [FRAMES]     replay.sh play FILE PORT [RATE, as in 100M or 1000pps]
set -eu
LINERATE=${LINERATE:-linerate}
usage() { sed -n '3s/^# *//p' "$0" >&2; exit 2; }
[ $# -ge 3 ] || usage
case $1 in
    record) "$LINERATE" cat -t ${4:+-c "$4"} "$2" | dd of="$3" bs=1M status=none ;;
    play)
        if [ $# -ge 4 ]; then
            dd if="$2" bs=1M status=none | "$LINERATE" rate -r "$4" | "$LINERATE" put --at-once "$3"
        else
            # Stamps as they were recorded say when: from now on, not from then.
            dd if="$2" bs=1M status=none | "$LINERATE" put --at-once "$3"
        fi
        ;;
    *) usage ;;
esac
