#!/usr/bin/env bash
# Measures how many requests kvbench simulate plays for each second on one core.
# usage: results/recorded/simulate-speed/run.sh TRACE, from the repository's root,
# with the public conversation trace and nothing else running. COUNT runs of each
# policy (default 5), one after the other in turns; 8 ranks, pools of 65,536 blocks
# of 16 tokens, no bounds and no oracle, GOMAXPROCS=1. It takes one to two minutes
# and writes speed.json: the machine, the commit, and each run with requests for
# each second of the clock and of CPU time.
set -euo pipefail
[ $# -eq 1 ] && [ -r "$1" ] || { echo "usage: $0 TRACE" >&2; exit 2; }
trace=$(realpath "$1")
count=${COUNT:-5}
dir=results/recorded/simulate-speed
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
go test -c -o "$tmp/simulate.test" ./internal/simulate
dirty=false
[ -z "$(git status --porcelain --untracked-files=no)" ] || dirty=true
for round in $(seq "$count"); do
	for policy in round-robin least-loaded kv; do
		(cd internal/simulate && KVBENCH_TRACE=$trace GOMAXPROCS=1 "$tmp/simulate.test" \
			-test.run '^$' -test.bench "^BenchmarkRun/$policy\$" -test.benchtime 1x) |
			awk -v policy="$policy" -v round="$round" '/^BenchmarkRun/ {
				for (i = 2; i < NF; i++) value[$(i+1)] = $i
				printf "{\"round\": %d, \"policy\": \"%s\", \"requests_per_second\": %s, \"requests_per_cpu_second\": %s, \"ns\": %s, \"bytes_allocated\": %s}\n",
					round, policy, value["requests/s"], value["requests/cpu-s"], value["ns/op"], value["B/op"]
			}' >> "$tmp/runs"
	done
done
[ "$(wc -l < "$tmp/runs")" -eq $((3 * count)) ] || { echo "$0: a run is missing" >&2; exit 1; }
{
	printf '{"schema": "kvbench.simulate-speed/v1", "commit": "%s", "dirty": %s, "go": "%s", "cpu": "%s", "cpus": %d, "load_average": %s, "trace_sha256": "%s", "time": "%s", "runs": [\n' \
		"$(git rev-parse HEAD)" "$dirty" "$(go env GOVERSION)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" \
		"$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)" "$(sha256sum "$trace" | cut -d' ' -f1)" "$(date -u +%FT%TZ)"
	sed '$!s/$/,/' "$tmp/runs"
	printf ']}\n'
} > "$dir/speed.json.new"
mv "$dir/speed.json.new" "$dir/speed.json"
