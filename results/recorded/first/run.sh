#!/usr/bin/env bash
# Makes trials.jsonl: usage: run.sh TRACE > trials.jsonl, from the repository's root.
# Rounds of trials in fresh processes, each round in another order, on two saved
# corpora: one that no index keeps up with, one that every index does.
set -euo pipefail
trace=$1
rounds=${ROUNDS:-7}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -buildvcs=true -o "$work/kvbench" ./cmd/kvbench
cd "$work"
./kvbench corpus write "$trace" --workers 128 --duplication-factor 5 --duration 500ms --out overloaded.corpus --quiet
./kvbench corpus write "$trace" --workers 128 --duration 6s --out keepup.corpus --quiet

variants=('--index noop' '--index flat' '--index flat --track-resident-blocks')
for ((round = 0; round < rounds; round++)); do
	for load in overloaded keepup; do
		for ((i = 0; i < ${#variants[@]}; i++)); do
			variant=${variants[$(((round + i) % ${#variants[@]}))]}
			echo "round $round: $load $variant" >&2
			# An invalid trial is kept as well: its record says so.
			# shellcheck disable=SC2086
			./kvbench replay "$load.corpus" --quiet --json $variant | sed 's/^ *//' | tr -d '\n' || true
			echo
		done
	done
done
