#!/usr/bin/env bash
# Two experiments of rounds on the conversation trace: all indexes, and the form
# of the published study of resident counts. Takes about 15 minutes.
# Usage: results/recorded/rounds/run.sh conversation_trace.jsonl
set -euo pipefail
work=/tmp/kvbench-recorded-rounds
rm -rf "$work" && mkdir -p "$work"
cp "$1" "$work/conversation_trace.jsonl"
cd "$(dirname "$0")/../../.."
go build -buildvcs=true -o "$work/kvbench" ./cmd/kvbench
here=$PWD/results/recorded/rounds
cd "$work"
kvbench() { env -i PATH=/usr/bin:/bin HOME="$work" ./kvbench "$@"; }
keep() {
	mkdir -p "$here/$1"
	cp "$work/$1/manifest.json" "$here/$1/manifest.json"
	gzip -9n <"$work/$1/journal.jsonl" >"$here/$1/journal.jsonl.gz"
}

# Every index, counts tracked or not, on more than any of them can do.
variants=()
for index in noop runs crtc positional flat radix; do
	variants+=(--variant "$index=--index $index" --variant "$index-tracked=--index $index --track-resident-blocks")
done
ratios=()
for index in runs crtc positional radix; do ratios+=(--ratio "$index/flat"); done
for index in noop runs crtc positional flat radix; do ratios+=(--ratio "$index-tracked/$index"); done
code=0
kvbench rounds --rounds 12 "${variants[@]}" "${ratios[@]}" --metric achieved_block_ops_per_sec,query_service.p50,query_service.p99 \
	--out indexes -- replay conversation_trace.jsonl --workers 128 --duration 250ms --duplication-factor 2 \
	--quiesce 0s --event-workers 1 --query-threads 1 --allow-shared-cpus || code=$?
[ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code"
keep indexes

# The published study: the same program twice, tracked, and tracked with a
# reader of all counts at three paces and without pause.
code=0
kvbench rounds --rounds 28 --variant base= --variant untracked= --variant tracked=--track-resident-blocks \
	--variant 'read-1k=--track-resident-blocks --resident-blocks-reader-rate 1000' \
	--variant 'read-10k=--track-resident-blocks --resident-blocks-reader-rate 10000' \
	--variant 'read-100k=--track-resident-blocks --resident-blocks-reader-rate 100000' \
	--variant 'nonstop=--track-resident-blocks --resident-blocks-reader-rate 0' \
	--ratio untracked/base --ratio tracked/untracked --ratio read-1k/tracked --ratio read-10k/tracked --ratio read-100k/tracked --ratio nonstop/tracked \
	--metric achieved_block_ops_per_sec --non-inferiority 4% \
	--out tracking -- replay conversation_trace.jsonl --workers 128 --duration 250ms --duplication-factor 2 \
	--quiesce 0s --event-workers 1 --query-threads 1 --allow-shared-cpus || code=$?
[ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code"
keep tracking
