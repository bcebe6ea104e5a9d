#!/usr/bin/env bash
# The cost of tracking resident blocks, in as many rounds as it takes to see one
# hundredth on a machine of two CPUs: the event thread has CPU 1 for itself once
# everything is issued from CPU 0, and decides how long a trial takes. About 20 minutes.
# Usage: results/recorded/tracking-cost/run.sh conversation_trace.jsonl [ROUNDS]
set -euo pipefail
work=/tmp/kvbench-recorded-tracking-cost
rm -rf "$work" && mkdir -p "$work"
cp "$1" "$work/conversation_trace.jsonl"
cd "$(dirname "$0")/../../.."
go build -buildvcs=true -o "$work/kvbench" ./cmd/kvbench
here=$PWD/results/recorded/tracking-cost
cd "$work"
code=0
env -i PATH=/usr/bin:/bin HOME="$work" ./kvbench rounds --rounds "${2:-700}" --gap 0s \
	--variant untracked= --variant tracked=--track-resident-blocks --ratio tracked/untracked \
	--metric achieved_block_ops_per_sec --non-inferiority 1% --out exp \
	-- replay conversation_trace.jsonl --workers 128 --duration 150ms --quiesce 0s \
	--issuer-cpus 0 --query-issuer-cpu 0 --backend-cpus 0-1 --event-workers 1 --query-threads 1 --allow-shared-cpus || code=$?
[ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code"
cp exp/manifest.json "$here/manifest.json"
gzip -9n <exp/journal.jsonl >"$here/journal.jsonl.gz"
