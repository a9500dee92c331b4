#!/bin/bash
# ARP and ICMP echo in the shell: asks who has an address, then for an echo, three times; says on standard error what came back.
# Frames come on standard input and leave on standard output; checksums are left to 'linerate crc'. With a port:
#   ping.sh 10.0.0.1 10.0.0.2 tap:tap0
set -eu
LINERATE=${LINERATE:-linerate}
[ $# -ge 2 ] || { echo "usage: $0 ADDR OUR_ADDR [PORT]" >&2; exit 2; }
if [ $# -eq 3 ]; then
    back=$(mktemp -u)
    mkfifo "$back"
    trap 'rm -f "$back"' EXIT
    "$LINERATE" pipe --half "$3" < "$back" | "$0" "$1" "$2" > "$back"
    exit
fi
hex() { local IFS=.; printf '%02X %02X %02X %02X' $1; }
addr=$(hex "$1") own=$(hex "$2") mac=0200000000FE
bytes() { sed 's/../& /g; s/ $//' <<< "$1"; }
zeros() { printf '%*s' "$1" '' | sed 's/ / 00/g'; }

ask() { echo "FFFFFFFFFFFF $mac 0806 00 01 08 00 06 04 00 01 $(bytes $mac) $own 00 00 00 00 00 00 $addr$(zeros 18)"; }
target= seq=0
request() {
    seq=$((seq + 1))
    # 20 bytes of header, 8 of ICMP, 18 of payload: what makes 60 bytes of frame.
    echo "$target $mac 0800 45 00 00 2E 00 00 40 00 40 01 00 00 $own $addr 08 00 00 00 12 34 00 0$seq$(zeros 18)" | "$LINERATE" crc
}
arp_reply="^$mac ([0-9A-F]{12}) 0806 00 01 08 00 06 04 00 02 [0-9A-F ]{17} $addr"
arp_request="^[0-9A-F]{12} ([0-9A-F]{12}) 0806 00 01 08 00 06 04 00 01 [0-9A-F ]{17} ([0-9A-F ]{11}) [0-9A-F ]{17} $own"
echo_reply="^$mac [0-9A-F]{12} 0800 45 ([0-9A-F]{2} ){8}01 .. .. $addr $own 00 00 .. .. 12 34 00 0([0-9])"
ask
tries=0
while :; do
    line=
    read -r -t 1 line || {
        # More than 128 is a second without a line; anything else is the end.
        [ $? -gt 128 ] && [ $((tries += 1)) -le 5 ] || break
        [ -n "$target" ] || ask
    }
    if [[ -z $target && $line =~ $arp_reply ]]; then
        target=${BASH_REMATCH[1]}
        echo "$1 is at $target" >&2
        request
    elif [[ $line =~ $arp_request ]]; then
        them=${BASH_REMATCH[1]}
        echo "$them $mac 0806 00 01 08 00 06 04 00 02 $(bytes $mac) $own $(bytes "$them") ${BASH_REMATCH[2]}$(zeros 18)"
    elif [[ $line =~ $echo_reply ]]; then
        echo "$1 answers: ${BASH_REMATCH[2]}" >&2
        [ "$seq" -eq 3 ] && exit 0
        request
    fi
done
echo "$1 does not answer" >&2
exit 1
