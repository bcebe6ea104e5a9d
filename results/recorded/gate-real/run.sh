#!/usr/bin/env bash
# How often does the gate fail a program compared with itself, in real rounds? Twenty
# experiments of ten rounds, each with one look. About six minutes.
# Usage: results/recorded/gate-real/run.sh conversation_trace.jsonl
set -euo pipefail
work=/tmp/kvbench-recorded-gate
rm -rf "$work" && mkdir -p "$work"
cp "$1" "$work/conversation_trace.jsonl"
cd "$(dirname "$0")/../../.."
go build -buildvcs=true -o "$work/kvbench" ./cmd/kvbench
here=$PWD/results/recorded/gate-real
cd "$work"
run() { env -i PATH=/usr/bin:/bin HOME="$work" ./kvbench "$@"; }
run corpus write conversation_trace.jsonl --workers 128 --duration 100ms --out w.corpus --quiet
run version --json >"$here/version.json"
rm -rf "$here"/gates && mkdir -p "$here/gates"
for i in $(seq -w 1 20); do
	code=0
	run rounds --quiet --rounds 10 --warmup-rounds 0 --gap 100ms --quick-host --quiet-limit 0s --order-seed "$((10#$i))" \
		--variant base= --variant head= --ratio head/base --metric achieved_block_ops_per_sec --out "exp$i" -- \
		replay w.corpus --quiesce 0s --event-workers 1 --query-threads 1 --allow-shared-cpus >/dev/null || code=$?
	[ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code"
	code=0
	run gate "exp$i" --margin 20% --allow-unfit --format json >"$here/gates/$i.json" || code=$?
	echo "gate $i: exit code $code"
done
