#!/bin/sh
# Many addresses behind one: of frames from inside the source is rewritten, of answers to them the destination. One table for
# both directions: frames of both sides come through here, and their addresses say which way they go.
#   nat.sh 192.168.1.0/24 203.0.113.5 < frames > frames
set -eu
LINERATE=${LINERATE:-linerate}
[ $# -eq 2 ] || { echo "usage: $0 INSIDE_NET OUTSIDE_ADDR" >&2; exit 2; }
exec "$LINERATE" rewrite --nat44 "$1=$2"
