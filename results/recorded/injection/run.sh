#!/usr/bin/env bash
# Does a slower event show under an overload, and a slower query where the index
# keeps up? Two experiments of rounds with slowness put in on purpose. About five
# minutes. Usage: results/recorded/injection/run.sh conversation_trace.jsonl
set -euo pipefail
work=/tmp/kvbench-recorded-injection
rm -rf "$work" && mkdir -p "$work"
cp "$1" "$work/conversation_trace.jsonl"
cd "$(dirname "$0")/../../.."
go build -buildvcs=true -o "$work/kvbench" ./cmd/kvbench
here=$PWD/results/recorded/injection
cd "$work"
measure() {
	local name=$1 code=0
	shift
	env -i PATH=/usr/bin:/bin HOME="$work" ./kvbench rounds --rounds 16 --gap 200ms \
		--variant base= --variant events=--inject-event-delay=200ns --variant queries=--inject-query-work=2x \
		--metric achieved_block_ops_per_sec,query_service.p50 --out "$name" -- \
		replay conversation_trace.jsonl --workers 128 --quiesce 0s --event-workers 1 --query-threads 1 --allow-shared-cpus "$@" || code=$?
	[ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code"
	mkdir -p "$here/$name"
	cp "$work/$name/manifest.json" "$here/$name/manifest.json"
	gzip -9n <"$work/$name/journal.jsonl" >"$here/$name/journal.jsonl.gz"
}
measure overloaded --duration 250ms --duplication-factor 2
measure keep-up --duration 3s
