#!/usr/bin/env bash
# Measures the indexes against each other in one process, twice: everything on
# one copy of the trace, then the fast ones on twenty. Takes about a quarter of an hour.
# Usage: results/recorded/indexes/run.sh conversation_trace.jsonl
set -euo pipefail
trace=$(realpath "$1")
cd "$(dirname "$0")/../../.."
go build -buildvcs=true -o /tmp/kvbench-recorded ./cmd/kvbench
out=results/recorded/indexes
/tmp/kvbench-recorded micro index "$trace" --index runs,crtc,positional,flat,radix --rounds 7 --json \
	--case x1,one-block-128,one-block-1024,held-by-128,held-by-1024,held-by-10000 >"$out/one.json.tmp"
mv "$out/one.json.tmp" "$out/one.json"
/tmp/kvbench-recorded micro index "$trace" --index runs,crtc,flat --rounds 6 --json \
	--case x20,random-victims >"$out/twenty.json.tmp"
mv "$out/twenty.json.tmp" "$out/twenty.json"
