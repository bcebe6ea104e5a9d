#!/usr/bin/env bash
# Where the index runs spends its time: events of twenty copies of the conversation
# trace applied by one thread, and with the queries among them. About two minutes.
# Usage: results/recorded/profile/run.sh conversation_trace.jsonl
set -euo pipefail
trace=$(realpath "$1")
cd "$(dirname "$0")/../../.."
out=$PWD/results/recorded/profile
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -z "$(git status --porcelain --untracked-files=no)" ] || { echo 'commit first: a profile names the commit that it is of'; exit 1; }
cp "$trace" "$work/conversation_trace.jsonl"
go build -buildvcs=true -o "$work/kvbench" ./cmd/kvbench
"$work/kvbench" corpus write "$work/conversation_trace.jsonl" --workers 128 --duplication-factor 20 --duration 10s --out "$work/w.corpus" --quiet
go test -c -o "$work/runs.test" ./indexer/runs
for mode in apply mixed; do
	KVBENCH_CORPUS="$work/w.corpus" "$work/runs.test" -test.run '^$' -test.bench "Corpus/$mode/runs" -test.benchtime 5x \
		-test.cpuprofile "$work/$mode.pprof" >/dev/null
	go tool pprof -top -nodecount 14 "$work/runs.test" "$work/$mode.pprof" 2>/dev/null |
		grep -v '^\(File\|Build ID\|Time\)' >"$work/$mode.txt"
	mv "$work/$mode.txt" "$out/$mode.txt"
done
"$work/kvbench" version --json >"$out/version.json"
