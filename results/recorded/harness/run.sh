#!/usr/bin/env bash
# Measures the harness itself: how fast issuers can issue, what keeping progress and
# busy time costs, and whether loading ahead pays. Takes about ten minutes, on a
# machine that does nothing else.
# Usage: results/recorded/harness/run.sh; then go test ./results/recorded -update
set -euo pipefail
cd "$(dirname "$0")/../../.."
[ -z "$(git status --porcelain --untracked-files=no)" ] || { echo 'the checkout has changes; measure a commit'; exit 1; }
out=results/recorded/harness
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lines that the Go benchmark format calls configuration.
about() {
	echo "commit: $(git rev-parse "${1:-HEAD}")"
	echo "toolchain: $(go env GOVERSION)"
	echo "cpus: $(nproc)"
	echo "load-before: $(cut -d ' ' -f 1 /proc/loadavg)" # of the last minute
}
record() { # NAME: standard input becomes the file when it is whole
	cat >"$work/$1"
	mv "$work/$1" "$out/$1"
}

{
	about
	go test ./internal/replay -run '^$' -bench '^BenchmarkIssue$' -benchtime 30x -count 5 -cpu 4
} | record issue.txt

{
	about
	go test ./internal/replay -run '^$' -bench '^BenchmarkLookAhead$/^(noop|reading)$' -benchtime 15x -cpu 4
	go test ./internal/replay -run '^$' -bench '^BenchmarkLookAhead$/^flat$' -benchtime 9x -cpu 4
} | record lookahead.txt

# Progress and busy time came between two commits, whose programs run in turn on
# one CPU.
before=eff69ab after=25a888c events=20000000
for name in before after; do
	git clone --quiet --shared . "$work/$name"
	git -C "$work/$name" checkout --quiet "${!name}"
	(cd "$work/$name" && go test -c -o "$work/$name.test" ./indexer)
done
{
	about "$after"
	echo "before: $(git rev-parse "$before")"
	TIMEFORMAT='%U %S'
	for pair in $(seq 20); do
		echo "pair: $pair"
		order="before after"
		[ $((pair % 2)) -eq 1 ] || order="after before"
		for name in $order; do
			used=$({ time taskset -c 1 "$work/$name.test" -test.run '^$' -test.bench '^BenchmarkPoolPush$/^yield$' -test.benchtime "${events}x" >/dev/null; } 2>&1)
			echo "$used" | awk -v name="$name" -v n="$events" '{ printf "BenchmarkPoolPush/program=%s %d %.3f cpu-ns/op\n", name, n, ($1 + $2) * 1e9 / n }'
		done
	done
} | record progress.txt
