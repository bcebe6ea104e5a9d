#!/usr/bin/env bash
# Measures what choosing a rank takes, and what reading and keeping the resident
# counts costs. Takes two to three minutes, on a machine that does nothing else.
# Usage: results/recorded/selection/run.sh; then go test ./results/recorded -update
set -euo pipefail
cd "$(dirname "$0")/../../.."
go build -buildvcs=true -o /tmp/kvbench-recorded ./cmd/kvbench
out=results/recorded/selection
record() {
	/tmp/kvbench-recorded micro "$@" --json >"$out/$1.json.tmp"
	mv "$out/$1.json.tmp" "$out/$1.json"
}
record default_selection --rounds 31
record resident_blocks_read --rounds 31
record resident_blocks_write --rounds 21
