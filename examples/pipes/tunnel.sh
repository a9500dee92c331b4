#!/bin/sh
# Two ports far apart on one segment: frames as lines through a TCP connection, or through ssh. PORT may be - for standard
# input and output. Nothing is encrypted but by ssh.
#   tunnel.sh listen L4PORT PORT          and there: tunnel.sh connect HOST L4PORT PORT
#   tunnel.sh ssh HOST PORT THEIR_PORT    (linerate is there too)
set -eu
LINERATE=${LINERATE:-linerate}
usage() { sed -n '4,5s/^# *//p' "$0" >&2; exit 2; }

far() { # the other side's lines on standard output, ours on its standard input
    case $mode in
        listen) nc -l "$1" ;;
        connect) nc -N "$1" "$2" ;;
        ssh) ssh "$1" linerate pipe "$3" ;;
    esac
}

mode=${1:-}
case $mode in
    listen) [ $# -eq 3 ] || usage; port=$3 ;;
    connect) [ $# -eq 4 ] || usage; port=$4 ;;
    ssh) [ $# -eq 4 ] || usage; port=$3 ;;
    *) usage ;;
esac
shift
if [ "$port" = - ]; then
    far "$@"
else
    back=$(mktemp -u)
    mkfifo "$back"
    trap 'rm -f "$back"' EXIT
    "$LINERATE" pipe "$port" < "$back" | far "$@" > "$back"
fi
