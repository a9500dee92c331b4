#!/bin/sh
# rc script of 'linerate testtool -r examples/config.sh MODE', called as: SCRIPT unix:///path MODE PARALLEL
# Interface pgN has (N+1).0.0.1; its neighbor (N+1).0.0.2 is set by hand, so that nobody has to answer ARP.
set -eu

[ $# -eq 3 ] || { echo "usage: $0 unix:///path send|recv|route parallel" >&2; exit 2; }
LINERATE=${LINERATE:-linerate}
command -v "$LINERATE" >/dev/null || { echo "$0: no '$LINERATE' in PATH; set LINERATE=/path/to/linerate" >&2; exit 1; }
LINERATE_CTL=$1
export LINERATE_CTL
mode=$2
case $mode in
    route) interfaces=$(($3 * 2)) ;;
    send | recv) interfaces=1 ;;
    *) echo "$0: unknown mode '$mode': expected send, recv or route" >&2; exit 2 ;;
esac

"$LINERATE" sysctl -w net.inet.udp.sendspace=200000

n=0
while [ "$n" -lt "$interfaces" ]; do
    net=$((n + 1))
    "$LINERATE" ifconfig "pg$n" create
    "$LINERATE" ifconfig "pg$n" inet "$net.0.0.1"
    "$LINERATE" ifconfig "pg$n" ip4csum
    "$LINERATE" ifconfig "pg$n" udp4csum
    "$LINERATE" ifconfig "pg$n" mtu 9000
    "$LINERATE" arp -s "$net.0.0.2" "12:23:34:45:56:$(printf %02x "$n")"
    n=$net
done

if [ "$mode" = route ]; then
    "$LINERATE" sysctl -w net.inet.ip.forwarding=1
    "$LINERATE" route show
fi
