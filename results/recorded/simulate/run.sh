#!/usr/bin/env bash
# Makes comparison.json: usage: TRACE=conversation_trace.jsonl results/recorded/simulate/run.sh,
# from the repository's root, with the public conversation trace of Mooncake (FAST '25;
# kvbench trace fetch). The result depends on the trace and the code alone, not on the machine.
set -euo pipefail
out=results/recorded/simulate/comparison.json
go run ./cmd/kvbench simulate "${TRACE:?the conversation trace}" --workers 8 \
	--policy round-robin --policy least-loaded --policy power-of-two \
	--policy prefix-threshold --policy kv --policy kv-resident \
	--speed-up 0.5,1,1.5,2 --seeds 3 --warm-up 0.2 --slo ttft=2s,tpot=50ms --json |
	sed 's/^ *//' | tr -d '\n' > "$out.new"
echo >> "$out.new"
mv "$out.new" "$out"
