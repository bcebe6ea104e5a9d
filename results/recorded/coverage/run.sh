#!/usr/bin/env bash
# Makes coverage.json: usage: results/recorded/coverage/run.sh, from the repository's
# root. The result depends on the seed and the code alone, not on the machine.
set -euo pipefail
out=results/recorded/coverage/coverage.json
go run ./cmd/kvbench stats coverage --datasets "${DATASETS:-10000}" --n 6,7,9,10,13,20,40 --seed 1 --json |
	sed 's/^ *//' | tr -d '\n' > "$out.new"
echo >> "$out.new"
mv "$out.new" "$out"
