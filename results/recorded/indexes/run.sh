#!/usr/bin/env bash
# Measures the indexes against each other in one process: everything on one copy of
# the trace, then the fast ones on twenty, and the goals that name the slowest. Takes
# about half an hour.
# Usage: results/recorded/indexes/run.sh conversation_trace.jsonl
set -euo pipefail
trace=$(realpath "$1")
cd "$(dirname "$0")/../../.."
go build -buildvcs=true -o /tmp/kvbench-recorded ./cmd/kvbench
out=results/recorded/indexes
measure() { # NAME FLAGS...: to $out/NAME.json
	/tmp/kvbench-recorded micro index "$trace" --json "${@:2}" >"$out/$1.json.tmp"
	mv "$out/$1.json.tmp" "$out/$1.json"
}
measure one --index runs,crtc,positional,flat,radix --rounds 7 \
	--case x1,engine-x1,one-block-128,one-block-1024,held-by-128,held-by-1024,held-by-10000
measure twenty --index runs,crtc,flat,radix --rounds 6 --case x20 --pass apply,mixed
measure victims --index runs,crtc,flat,radix --rounds 6 --case random-victims --pass apply
measure beside --index runs,crtc,flat --rounds 6 --case x20 --pass lookup,beside,threads
