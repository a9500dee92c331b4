#!/bin/bash
# A learning switch in the shell: its table is a directory with a file for each address, in which stands a port's number.
# Each port is two files or FIFOs with frames as lines: IN is read, OUT is written. With a TAP interface behind them:
#   mkfifo a.in a.out; linerate tap tap0 < a.out > a.in &
#   ./learning_switch.sh a.in,a.out b.in,b.out
set -eu
[ $# -ge 2 ] || { echo "usage: $0 IN,OUT IN,OUT ..." >&2; exit 2; }
table=$(mktemp -d)
trap 'rm -rf "$table"' EXIT
trap 'exit 0' INT TERM

outs=()
for pair; do
    out=${pair#*,}
    [ -p "$out" ] || : > "$out"
    exec {fd}<> "$out" # for reading too: a FIFO opens without anybody at its far end
    outs+=("$fd")
done

# Lines are longer than what a FIFO takes in one piece (4096 bytes): one writer at a time.
put() { flock "$1"; printf '%s\n' "$2" >&"$1"; flock -u "$1"; }

serve() { # port
    while read -r dst src rest; do
        [[ $dst$src =~ ^[0-9A-F]{24}$ ]] || continue # these become names of files
        ((16#${src:1:1} & 1)) && continue            # a group is nobody's source
        [[ $dst == 0180C200000? ]] && continue       # for the neighbor alone
        echo "$1" > "$table/.$1" && mv "$table/.$1" "$table/$src"
        to=
        [ -e "$table/$dst" ] && to=$(< "$table/$dst")
        for port in "${!outs[@]}"; do
            [ "$port" = "$1" ] && continue
            [ -z "$to" ] || [ "$port" = "$to" ] || continue
            put "${outs[port]}" "$dst $src $rest"
        done
    done
}

port=0
for pair; do
    serve "$port" < "${pair%,*}" &
    port=$((port + 1))
done
wait
