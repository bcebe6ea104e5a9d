#!/usr/bin/env bash
# Makes gates.json: usage: results/recorded/gate-study/run.sh, from the repository's
# root. The result depends on the seed and the code alone, not on the machine.
set -euo pipefail
out=results/recorded/gate-study/gates.json
go run ./cmd/kvbench stats gates --gates "${GATES:-4000}" --seed 1 --json --quiet > "$out.new"
mv "$out.new" "$out"
