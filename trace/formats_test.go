package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

const (
	mooncakeRow = `{"timestamp": 27482, "input_length": 600, "output_length": 52, "hash_ids": [0, 47]}`
	bailianRow  = `{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 17, "output_length": 5, "type": "text", "turn": 1, "hash_ids": [7, 8]}`
	azureRows   = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n"
	burstRows   = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087,0,1087,API log\n"
	v1Rows      = `{"request_id": "a", "timestamp": 100, "input_length": 5, "output_length": 10, "hash_ids": [1]}
{"request_id": "b", "wait_for": ["a"], "delay": 3, "tool_wait_ms": 4, "input_length": 6, "output_length": 1, "hash_ids": [1]}
`
	v2Rows = `{"schema": "dynamo.agentic_mooncake", "version": 2, "block_size": 64, "hash_id_scope": "local", "source": {"format": "x", "digest": "y"}}
{"request_id": "a", "play_id": "p", "session_id": "s", "model": "m", "not_before_ms": 50, "input_length": 65, "output_length": 10, "hash_ids": [1, 2], "dependencies": []}
{"request_id": "b", "play_id": "p", "session_id": "s", "model": "m", "not_before_ms": 60, "input_length": 65, "output_length": 10, "hash_ids": [1, 3], "dependencies": [{"request_id": "a", "trigger": "completion", "delay_ms": 2.5, "relation": "sequence"}]}
`
	appliedRow = `{"num_turns": 2, "input_prompt_length": 600, "assistant_response_length": [10, 20], "tool_call_output_length": [500, 30], "tool_call_latency": [1.5, 0.25], "final_assistant_response_length": 7}`
)

// readFormat returns the rows of a trace and its reader, which has read them.
func readFormat(t testing.TB, text string, opts ReaderOptions) ([]Request, *Reader, error) {
	t.Helper()
	r, err := NewReader(strings.NewReader(text), "t", opts)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	var rows []Request
	for {
		var q Request
		if err := r.Read(&q); err == io.EOF {
			return rows, r, nil
		} else if err != nil {
			return rows, r, err
		}
		rows = append(rows, q)
	}
}

func TestFoundByContent(t *testing.T) {
	aiperf := `{"text_input": "hello", "output_length": 5, "timestamp": 1}`
	for _, tc := range []struct {
		text string
		opts ReaderOptions
		want Format
		note string // of what was inferred
		size int
	}{
		{mooncakeRow, ReaderOptions{}, Mooncake, "read as mooncake (found by the field hash_ids): times in ms, 512 tokens an id", 512},
		{bailianRow, ReaderOptions{}, Bailian, "read as bailian (found by the field chat_id): times in seconds, 16 tokens an id", 16},
		{azureRows, ReaderOptions{}, Azure, "read as azure (found by the columns TIMESTAMP and ContextTokens): times as dates, counted from the first row, 512 tokens an id", 512},
		{burstRows, ReaderOptions{}, BurstGPT, "read as burstgpt (found by the columns Timestamp and Request tokens): times in seconds, 512 tokens an id", 512},
		{v1Rows[strings.Index(v1Rows, "\n")+1:], ReaderOptions{}, Agentic, "read as agentic (found by the field wait_for): times in ms, 512 tokens an id", 512},
		{v2Rows, ReaderOptions{}, Agentic, `read as agentic (found by the header with the schema "dynamo.agentic_mooncake"): times in ms, 64 tokens an id`, 64},
		{appliedRow, ReaderOptions{SessionsPerSecond: 1}, AppliedCompute, "read as applied-compute (found by the fields num_turns and input_prompt_length): no arrival times, tool waits in seconds, 512 tokens an id", 512},
		{aiperf, ReaderOptions{BytesPerToken: 4}, AIPerf, "read as aiperf (found by the field text_input): times in ms, 512 tokens an id", 512},
		{mooncakeRow, ReaderOptions{Format: AIPerf, BlockSize: 300, TimeUnit: "s"}, AIPerf, "read as aiperf (as told): times in seconds, as told, 300 tokens an id", 300},
		{mooncakeRow, ReaderOptions{TimeUnit: "ms", BlockSize: 1}, Mooncake, "read as mooncake (found by the field hash_ids): times in ms, as told, 1 token an id", 1},
	} {
		for _, text := range []string{tc.text, "\xef\xbb\xbf\r\n" + strings.ReplaceAll(tc.text, "\n", "\r\n"), string(gzipped(tc.text)), string(zstdPacked(tc.text))} {
			_, r, err := readFormat(t, text, tc.opts)
			if r == nil || err != nil && !strings.Contains(err.Error(), "no earlier row") {
				t.Errorf("%.60q: %v", text, err)
			} else if r.Format() != tc.want || r.Notes()[0] != tc.note || r.BlockSize() != tc.size {
				t.Errorf("%.60q: %s with %d tokens, %q", text, r.Format(), r.BlockSize(), r.Notes())
			}
		}
	}
	for text, want := range map[string]string{
		"[" + mooncakeRow + "]":                             "is a JSON list",
		`{"conversations": [{"from": "human"}]}`:            "take a tokenizer",
		"arrived_at,num_prefill_tokens,num_decode_tokens\n": "Vidur",
		"a,b,c\n1,2,3\n":                                    "is not JSON",
	} {
		if _, _, err := readFormat(t, text, ReaderOptions{}); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "t:1") {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	for _, opts := range []ReaderOptions{{Format: "x"}, {TimeUnit: "h"}, {SessionsPerSecond: -1}, {BytesPerToken: math.NaN()}, {TokenMS: -1},
		{MissingOutput: -1}, {Prefixes: &PrefixModel{}}, {Prefixes: &PrefixModel{Groups: 1}}, {SessionsPerSecond: 1}} {
		if _, _, err := readFormat(t, mooncakeRow, opts); err == nil {
			t.Errorf("%+v is accepted", opts)
		}
	}
	if _, _, err := readFormat(t, azureRows, ReaderOptions{TimeUnit: "s"}); err == nil {
		t.Error("a unit for dates is accepted")
	}
}

// Each case is one oddity of files from the field: what becomes of it, and what is
// said about it.
func TestQuirks(t *testing.T) {
	row := func(rest string) string { return `{"timestamp": 1, "output_length": 2, ` + rest + `}` }
	for _, tc := range []struct {
		name, text string
		opts       ReaderOptions
		want       []Request // without lines and delays; nil: refused
		says       string    // a warning, or the error
	}{
		{"float timestamps", `{"timestamp": 1.25, "output_length": 2, "hash_ids": [3]}`, ReaderOptions{}, []Request{{Timestamp: 1.25, InputLength: 512, OutputLength: 2, HashIDs: []uint64{3}}}, ""},
		{"unsorted rows", mooncakeRow + "\n" + row(`"hash_ids": [3]`), ReaderOptions{},
			[]Request{{Timestamp: 27482, InputLength: 600, OutputLength: 52, HashIDs: []uint64{0, 47}}, {Timestamp: 1, InputLength: 512, OutputLength: 2, HashIDs: []uint64{3}}}, "1 row is out of the order of time (first on line 2)"},
		{"strings for ints", row(`"hash_ids": ["3"]`), ReaderOptions{}, nil, "write the id as a number"},
		{"strings for ints, leniently", `{"timestamp": "1.5", "output_length": "2", "input_length": "9", "hash_ids": ["3"]}`, ReaderOptions{Lenient: true},
			[]Request{{Timestamp: 1.5, InputLength: 9, OutputLength: 2, HashIDs: []uint64{3}}}, "taken as whole numbers"},
		{"empty strings, leniently", row(`"hash_ids": [""]`), ReaderOptions{Lenient: true}, nil, "is text"},
		{"missing output", `{"timestamp": 1, "hash_ids": [3]}`, ReaderOptions{}, nil, "--missing-output"},
		{"null output", `{"timestamp": 1, "output_length": null, "hash_ids": [3]}`, ReaderOptions{}, nil, "--missing-output"},
		{"missing output, made up", `{"timestamp": 1, "output_length": null, "hash_ids": [3]}`, ReaderOptions{MissingOutput: 77},
			[]Request{{Timestamp: 1, InputLength: 512, OutputLength: 77, HashIDs: []uint64{3}}}, "1 row has no output length and got 77 tokens"},
		{"CR LF and mark, no last end", "\xef\xbb\xbf" + row(`"hash_ids": [3]`) + "\r\n\r\n" + row(`"hash_ids": [4]`), ReaderOptions{},
			[]Request{{Timestamp: 1, InputLength: 512, OutputLength: 2, HashIDs: []uint64{3}}, {Timestamp: 1, InputLength: 512, OutputLength: 2, HashIDs: []uint64{4}}}, ""},
		{"large float ids", row(`"hash_ids": [9.007199254740992e15]`), ReaderOptions{}, nil, "does not hold every id exactly"},
		{"large float ids, leniently", row(`"hash_ids": [9.007199254740992e15]`), ReaderOptions{Lenient: true}, nil, "does not hold every id exactly"},
		{"exact float ids, leniently", row(`"hash_ids": [9.007199254740991e15, 4.0]`), ReaderOptions{Lenient: true},
			[]Request{{Timestamp: 1, InputLength: 1024, OutputLength: 2, HashIDs: []uint64{1<<53 - 1, 4}}}, "taken as whole numbers"},
		{"fractions, leniently", row(`"hash_ids": [1.5]`), ReaderOptions{Lenient: true}, nil, "floating-point"},
		{"large ids", row(`"hash_ids": [9007199254740993, 18446744073709551615]`), ReaderOptions{},
			[]Request{{Timestamp: 1, InputLength: 1024, OutputLength: 2, HashIDs: []uint64{1<<53 + 1, math.MaxUint64}}}, ""},
		{"more ids than blocks", row(`"input_length": 5, "hash_ids": [1, 2]`), ReaderOptions{},
			[]Request{{Timestamp: 1, InputLength: 5, OutputLength: 2, HashIDs: []uint64{1, 2}}}, "1 row has more ids than input_length needs"},
		{"fewer ids than blocks", row(`"input_length": 513, "hash_ids": [1]`), ReaderOptions{},
			[]Request{{Timestamp: 1, InputLength: 512, OutputLength: 2, HashIDs: []uint64{1}}}, "which was cut to that"},
		{"empty prompt", row(`"input_length": 0, "hash_ids": []`), ReaderOptions{}, []Request{{Timestamp: 1, OutputLength: 2}}, "1 row has an empty prompt"},
		{"seconds as told", row(`"hash_ids": [3]`), ReaderOptions{TimeUnit: "s"}, []Request{{Timestamp: 1000, InputLength: 512, OutputLength: 2, HashIDs: []uint64{3}}}, ""},
		{"dependencies", row(`"hash_ids": [3], "wait_for": ["a"]`), ReaderOptions{Format: Mooncake}, nil, "--format agentic"},
		{"no dependencies", row(`"hash_ids": [3], "wait_for": []`), ReaderOptions{Format: Mooncake}, []Request{{Timestamp: 1, InputLength: 512, OutputLength: 2, HashIDs: []uint64{3}}}, ""},
		{"lengths alone", row(`"input_length": 5`), ReaderOptions{}, nil, "--format aiperf"},
		{"text", row(`"text_input": "abc", "input_length": 3`), ReaderOptions{Format: Mooncake}, nil, "--format aiperf"},

		{"AIPerf lengths alone", row(`"input_length": 513`), ReaderOptions{Format: AIPerf},
			[]Request{{Timestamp: 1, InputLength: 513, OutputLength: 2, HashIDs: []uint64{madeUp(0), madeUp(1)}}}, "no prompt shares a prefix with another"},
		{"AIPerf text", row(`"text_input": "abc"`), ReaderOptions{}, nil, "--bytes-per-token"},
		{"AIPerf text and length", row(`"text_input": "abc", "input_length": 3`), ReaderOptions{BytesPerToken: 4}, nil, "keep the text or the lengths"},
		{"AIPerf nothing", row(`"x": 1`), ReaderOptions{Format: AIPerf}, nil, "input_length"},
		{"AIPerf no text", row(`"text_input": ["abc"]`), ReaderOptions{BytesPerToken: 4}, nil, "one string"},

		{"Bailian seconds", bailianRow, ReaderOptions{KeepIDs: true}, []Request{{Session: "159", Timestamp: 61114, InputLength: 17, OutputLength: 5, HashIDs: []uint64{7, 8}}}, ""},
		{"Bailian in ms", bailianRow, ReaderOptions{KeepIDs: true, TimeUnit: "ms"}, []Request{{Session: "159", Timestamp: 61.114, InputLength: 17, OutputLength: 5, HashIDs: []uint64{7, 8}}}, ""},
		{"Bailian unknown parent", strings.Replace(bailianRow, "-1", "12", 1), ReaderOptions{KeepIDs: true},
			[]Request{{Session: "159", Timestamp: 61114, InputLength: 17, OutputLength: 5, HashIDs: []uint64{7, 8}}}, "1 row has a parent that no earlier row has"},
		{"Bailian chat twice", bailianRow + "\n" + bailianRow, ReaderOptions{}, nil, "t:2: chat_id: 159 is the chat of an earlier row"},
		{"Bailian without a time", strings.Replace(bailianRow, "timestamp", "t", 1), ReaderOptions{}, nil, "timestamp: is missing"},
		{"Bailian without length", strings.Replace(bailianRow, "input_length", "t", 1), ReaderOptions{}, nil, "input_length: is missing"},
		{"Bailian without ids", strings.Replace(bailianRow, "hash_ids", "t", 1), ReaderOptions{}, nil, "hash_ids: is missing"},
		{"Bailian bad chat", strings.Replace(bailianRow, "159", "-1", 1), ReaderOptions{}, nil, "chat_id: -1 is no id"},
		{"Bailian bad parent", strings.Replace(bailianRow, "-1", "1.5", 1), ReaderOptions{}, nil, "parent_chat_id"},
		{"Bailian lenient parent", strings.Replace(bailianRow, "-1", `"-1"`, 1), ReaderOptions{KeepIDs: true, Lenient: true},
			[]Request{{Session: "159", Timestamp: 61114, InputLength: 17, OutputLength: 5, HashIDs: []uint64{7, 8}}}, "taken as whole numbers"},

		{"Azure 2023", azureRows, ReaderOptions{BlockSize: 4096},
			[]Request{{InputLength: 4808, OutputLength: 10, HashIDs: []uint64{0, 1}}, {Timestamp: 52, InputLength: 3180, OutputLength: 8, HashIDs: []uint64{2}}}, "2 rows have lengths alone"},
		{"Azure 2024", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,1,1\n2024-05-10 00:00:00.017335+00:00,1,1", ReaderOptions{},
			[]Request{{InputLength: 1, OutputLength: 1, HashIDs: []uint64{0}}, {Timestamp: 7.405, InputLength: 1, OutputLength: 1, HashIDs: []uint64{1}}}, ""},
		{"Azure with quotes", "\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\n\"2024-05-10 00:00:00\",\"1\",\"1\"", ReaderOptions{Format: Azure},
			[]Request{{InputLength: 1, OutputLength: 1, HashIDs: []uint64{0}}}, ""},
		{"Azure back in time", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01,1,1\n2024-05-10 00:00:00,1,1", ReaderOptions{}, nil, "t:3: TIMESTAMP: 2024-05-10 00:00:00 is before the first row"},
		{"Azure bad time", "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1", ReaderOptions{}, nil, `t:2: TIMESTAMP: "yesterday" is no time`},
		{"Azure empty field", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01,,1", ReaderOptions{}, nil, "t:2: ContextTokens: is empty"},
		{"Azure cut row", azureRows + "2023-11-16 18:17:04,31", ReaderOptions{}, nil, "t:4: the row has 2 columns and the header 3"},
		{"Azure bad quotes", azureRows + `"a,b`, ReaderOptions{}, nil, "t:4: is no row of CSV"},
		{"Azure without a column", "TIMESTAMP,ContextTokens,Foo\n", ReaderOptions{}, nil, "t:1: the header has no column GeneratedTokens"},
		{"Azure with prefixes", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:01,1025,1\n2024-05-10 00:00:01,1024,1", ReaderOptions{Prefixes: &PrefixModel{Groups: 1, Tokens: 1100}},
			[]Request{{InputLength: 1025, OutputLength: 1, HashIDs: []uint64{1 << 63, 1<<63 + 1, 0}}, {InputLength: 1024, OutputLength: 1, HashIDs: []uint64{1 << 63, 1}}},
			"2 rows have lengths alone; which prefixes they share is made up (1 groups, 1100 tokens, skew 0, seed 0)"},
		{"BurstGPT, one failed", burstRows, ReaderOptions{},
			[]Request{{Timestamp: 5000, InputLength: 472, OutputLength: 18, HashIDs: []uint64{0}}, {Timestamp: 45500, InputLength: 1087, HashIDs: []uint64{1, 2, 3}}}, "1 row has an output of 0 tokens: requests that failed"},
		{"BurstGPT bad time", "Timestamp,Model,Request tokens,Response tokens\n-1,a,1,1", ReaderOptions{}, nil, "t:2: Timestamp: "},

		{"agentic version 1", v1Rows, ReaderOptions{Format: Agentic},
			[]Request{{Session: "a", Timestamp: 100, InputLength: 5, OutputLength: 10, HashIDs: []uint64{1}}, {Session: "a", Timestamp: math.NaN(), Delay: 7, InputLength: 6, OutputLength: 1, HashIDs: []uint64{1}}}, ""},
		{"agentic version 2", v2Rows, ReaderOptions{},
			[]Request{{Session: "s", Timestamp: 50, InputLength: 65, OutputLength: 10, HashIDs: []uint64{1, 2}}, {Session: "s", Timestamp: math.NaN(), Delay: 2.5, InputLength: 65, OutputLength: 10, HashIDs: []uint64{1, 3}}}, ""},
		{"agentic: second that waits", v1Rows + strings.Replace(v1Rows[strings.Index(v1Rows, "\n")+1:], `"b"`, `"c"`, 1), ReaderOptions{Format: Agentic, TokenMS: 5},
			[]Request{{Session: "a", Timestamp: 100, InputLength: 5, OutputLength: 10, HashIDs: []uint64{1}}, {Session: "a", Timestamp: math.NaN(), Delay: 7, InputLength: 6, OutputLength: 1, HashIDs: []uint64{1}},
				{Session: "c", Timestamp: 100 + 50 + 7, InputLength: 6, OutputLength: 1, HashIDs: []uint64{1}}}, "1 row waits for a request that another row continues already, and begin sessions of their own at a time that holds if a token of output takes 5 ms (first on line 3)"},
		{"agentic: several waits", v1Rows + `{"request_id": "c", "wait_for": ["a", "b"], "output_length": 1, "hash_ids": [1]}`, ReaderOptions{Format: Agentic},
			[]Request{{Session: "a", Timestamp: 100, InputLength: 5, OutputLength: 10, HashIDs: []uint64{1}}, {Session: "a", Timestamp: math.NaN(), Delay: 7, InputLength: 6, OutputLength: 1, HashIDs: []uint64{1}},
				{Session: "a", Timestamp: math.NaN(), Delay: 0, InputLength: 512, OutputLength: 1, HashIDs: []uint64{1}}}, "1 row waits for several requests"},
		{"agentic: dispatch", strings.Replace(v2Rows, "completion", "dispatch", 1), ReaderOptions{},
			[]Request{{Session: "s", Timestamp: 50, InputLength: 65, OutputLength: 10, HashIDs: []uint64{1, 2}}, {Session: "s/b", Timestamp: 60, InputLength: 65, OutputLength: 10, HashIDs: []uint64{1, 3}}}, "1 row waits for the dispatch of a request"},
		{"agentic: late not_before", strings.Replace(v2Rows, `"not_before_ms": 60`, `"not_before_ms": 6000`, 1), ReaderOptions{},
			[]Request{{Session: "s", Timestamp: 50, InputLength: 65, OutputLength: 10, HashIDs: []uint64{1, 2}}, {Session: "s", Timestamp: math.NaN(), Delay: 2.5, InputLength: 65, OutputLength: 10, HashIDs: []uint64{1, 3}}}, "1 row has a not_before_ms after what they wait for"},
		{"agentic: branches", `{"request_id": "a", "timestamp": 1, "branches": ["b"], "output_length": 1, "hash_ids": [1]}` + "\n" + `{"request_id": "b", "output_length": 1, "hash_ids": [1]}`, ReaderOptions{},
			[]Request{{Session: "a", Timestamp: 1, InputLength: 512, OutputLength: 1, HashIDs: []uint64{1}}, {Session: "a", Timestamp: math.NaN(), InputLength: 512, OutputLength: 1, HashIDs: []uint64{1}}}, ""},
		{"agentic: unknown wait", strings.Replace(v1Rows, `["a"]`, `["z"]`, 1), ReaderOptions{Format: Agentic}, nil, `t:2: wait_for: waits for "z", which no earlier row has`},
		{"agentic: no id", row(`"hash_ids": [1], "tool_wait_ms": 3`), ReaderOptions{}, nil, "request_id: is missing"},
		{"agentic: id twice", v1Rows + v1Rows, ReaderOptions{Format: Agentic}, nil, "t:3: request_id"},
		{"agentic: no time", `{"request_id": "a", "wait_for": [], "output_length": 1, "hash_ids": [1]}`, ReaderOptions{}, nil, "timestamp: is missing, and the request waits for no other"},
		{"agentic: no list", `{"request_id": "a", "wait_for": "b", "output_length": 1, "hash_ids": [1]}`, ReaderOptions{}, nil, "wait_for: "},
		{"agentic: other version", strings.Replace(v2Rows, `"version": 2`, `"version": 3`, 1), ReaderOptions{}, nil, "t:1: version"},
		{"agentic: other block size", v2Rows, ReaderOptions{BlockSize: 512}, nil, "t:1: block_size: is 64 and --trace-block-size 512"},
		{"agentic: no block size", strings.Replace(v2Rows, `"block_size"`, `"b"`, 1), ReaderOptions{}, nil, "t:1: block_size: is missing"},
		{"agentic: second header", v2Rows + v2Rows, ReaderOptions{}, nil, "t:4: schema"},
		{"agentic: bad trigger", strings.Replace(v2Rows, "completion", "start", 1), ReaderOptions{}, nil, "t:3: dependencies[0].trigger"},
		{"agentic: bad delay", strings.Replace(v2Rows, "2.5", "-2.5", 1), ReaderOptions{}, nil, "t:3: dependencies[0].delay_ms"},

		{"applied compute", appliedRow + "\n", ReaderOptions{SessionsPerSecond: 4}, []Request{
			{Session: "line_1", Timestamp: 0, InputLength: 600, OutputLength: 10, HashIDs: []uint64{0, 1}},
			{Session: "line_1", Timestamp: math.NaN(), Delay: 1500, InputLength: 1110, OutputLength: 20, HashIDs: []uint64{0, 2, 3}},
			{Session: "line_1", Timestamp: math.NaN(), Delay: 250, InputLength: 1160, OutputLength: 7, HashIDs: []uint64{0, 2, 4}},
		}, "1 row has no arrival time and got one: 4 sessions a second"},
		{"applied compute without a rate", appliedRow, ReaderOptions{}, nil, "--arrivals-per-second"},
		{"applied compute, lists too short", strings.Replace(appliedRow, "[10, 20]", "[10]", 1), ReaderOptions{SessionsPerSecond: 1}, nil, "assistant_response_length: has 1 elements and num_turns is 2"},
		{"applied compute, bad element", strings.Replace(appliedRow, "0.25", `"x"`, 1), ReaderOptions{SessionsPerSecond: 1}, nil, "tool_call_latency[1]"},
		{"applied compute, no list", strings.Replace(appliedRow, "[10, 20]", "10", 1), ReaderOptions{SessionsPerSecond: 1}, nil, "is no list"},
		{"applied compute, field missing", strings.Replace(appliedRow, "final_", "x_", 1), ReaderOptions{SessionsPerSecond: 1}, nil, "final_assistant_response_length: is missing"},
		{"applied compute, too long", strings.Replace(appliedRow, "[500, 30]", "[2147483647, 30]", 1), ReaderOptions{SessionsPerSecond: 1}, nil, "split the session"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows, r, err := readFormat(t, tc.text, tc.opts)
			if tc.want == nil {
				var parse *ParseError
				if !errors.As(err, &parse) || parse.Line == 0 || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, %v, want the error %q", rows, err, tc.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != len(tc.want) {
				t.Fatalf("got %+v, want %+v", rows, tc.want)
			}
			for i, want := range tc.want {
				want.Line = rows[i].Line
				if !math.IsNaN(want.Timestamp) {
					want.Delay = math.NaN()
				}
				if !same(rows[i], want) {
					t.Errorf("got %+v, want %+v", rows[i], want)
				}
			}
			if warnings := strings.Join(r.Warnings(), "\n"); !strings.Contains(warnings, tc.says) || tc.says == "" && warnings != "" && r.Format() == Mooncake {
				t.Errorf("warnings %q, want %q", warnings, tc.says)
			}
			// Whatever a reader gives, a trace takes.
			if _, _, err := load(tc.text, tc.opts); err != nil {
				t.Errorf("cannot be loaded: %v", err)
			}
		})
	}
}

// A chat and the first that names it are one session; a second one begins its own.
func TestBailianSessions(t *testing.T) {
	row := func(chat, parent int, at float64) string {
		return fmt.Sprintf(`{"chat_id": %d, "parent_chat_id": %d, "timestamp": %v, "input_length": 16, "output_length": 1, "hash_ids": [1]}`+"\n", chat, parent, at)
	}
	tr, src, err := load(row(1, -1, 0.5)+row(2, 1, 2)+row(3, 1, 3)+row(4, 2, 4.25)+row(5, 3, 5), ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range tr.Len() {
		q := tr.Request(i)
		got = append(got, fmt.Sprint(q.Session, " ", q.Timestamp, " ", q.Delay))
	}
	if want := []string{"1 500 NaN", "1 2000 1500", "3 3000 NaN", "1 4250 2250", "3 5000 2000"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := []string{"1 row has a parent that another row continues already, and begin sessions of their own at their times (first on line 3)"}; !slices.Equal(src.Warnings, want) {
		t.Errorf("warnings %q", src.Warnings)
	}
}

// Chained ids are equal exactly if all ids to there are; the hash never changes.
func TestChainedIDs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	byID, byPrefix := map[uint64]string{}, map[string]uint64{}
	for range 20000 {
		ids := make([]uint64, 1+rng.IntN(6))
		for i := range ids {
			ids[i] = uint64(rng.IntN(5))
		}
		chained := slices.Clone(ids)
		chain(chained)
		for i := range ids {
			text := fmt.Sprint(ids[:i+1])
			if old, ok := byID[chained[i]]; ok && old != text {
				t.Fatalf("%s and %s have one id", old, text)
			}
			if old, ok := byPrefix[text]; ok && old != chained[i] {
				t.Fatalf("%s has two ids", text)
			}
			byID[chained[i]], byPrefix[text] = text, chained[i]
		}
	}
	golden := []uint64{0, 1, math.MaxUint64}
	chain(golden)
	if want := []uint64{0xc565af1f792df198, 0x0dfb8e7c8198d898, 0x8017dd24919249a6}; !slices.Equal(golden, want) {
		t.Errorf("the hash changed: %#x", golden)
	}
}

// A later turn of AIPerf continues what the session has said. Text shares ids as
// far as it is the same.
func TestAIPerfSessions(t *testing.T) {
	rows, r, err := readFormat(t, `{"session_id": "a", "timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": [10, 11]}
{"session_id": "a", "delay": 50, "input_length": 3, "output_length": 1, "hash_ids": [10]}
{"session_id": "b", "timestamp": 0, "input_length": 9, "output_length": 1}
{"session_id": "a", "delay": 50, "input_length": 1, "output_length": 0}
{"timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": [10]}
`, ReaderOptions{Format: AIPerf, BlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	a1, a2, a3 := rows[0], rows[1], rows[3]
	if a1.InputLength != 5 || a2.InputLength != 5+2+3 || a3.InputLength != 10+1+1 {
		t.Errorf("lengths %d, %d, %d", a1.InputLength, a2.InputLength, a3.InputLength)
	}
	if !slices.Equal(a1.HashIDs, []uint64{10, 11}) || len(a2.HashIDs) != 3 || a2.HashIDs[0] != 10 || a2.HashIDs[1] == 11 {
		t.Errorf("ids %v, %v", a1.HashIDs, a2.HashIDs)
	}
	if len(a3.HashIDs) != 3 || !slices.Equal(a3.HashIDs[:2], a2.HashIDs[:2]) || a3.HashIDs[2] == a2.HashIDs[2] {
		t.Errorf("ids %v continue %v", a3.HashIDs, a2.HashIDs)
	}
	seen := map[uint64]int{}
	for _, q := range rows {
		for _, id := range q.HashIDs {
			seen[id]++
		}
	}
	if seen[10] != 4 || len(seen) != 2+2+3+1 {
		t.Errorf("ids %v", seen)
	}
	if w := r.Warnings(); len(w) != 2 || !strings.HasPrefix(w[1], "2 rows have the prompt and the answer of the turn before them put in front") {
		t.Errorf("warnings %q", w)
	}

	text := func(s string) string {
		return fmt.Sprintf(`{"timestamp": 0, "output_length": 1, "text_input": %q}`+"\n", s)
	}
	rows, _, err = readFormat(t, text("abcdefghijk")+text("abcdefghijkl")+text("abcdefghXjk")+text("Xbcdefghijk")+text("abcdefgh")+text(""), ReaderOptions{BlockSize: 2, BytesPerToken: 2})
	if err != nil {
		t.Fatal(err)
	}
	if rows[0].InputLength != 6 || len(rows[0].HashIDs) != 3 || rows[5].InputLength != 0 || len(rows[5].HashIDs) != 0 || rows[4].InputLength != 4 {
		t.Errorf("lengths of text: %+v", rows)
	}
	for i, shared := range []int{3, 2, 2, 0, 2} {
		n := 0
		for n < len(rows[i].HashIDs) && n < len(rows[0].HashIDs) && rows[i].HashIDs[n] == rows[0].HashIDs[n] {
			n++
		}
		if n != shared {
			t.Errorf("row %d shares %d ids with the first, want %d", i, n, shared)
		}
	}
	for _, perToken := range []float64{0.3, 1, 3.7, 1e5} {
		rows, _, err := readFormat(t, text(strings.Repeat("x", 1001)), ReaderOptions{BlockSize: 7, BytesPerToken: perToken})
		if err != nil || len(rows[0].HashIDs) > (rows[0].InputLength+6)/7 || rows[0].InputLength != int(math.Ceil(1001/perToken)) {
			t.Errorf("%v bytes a token: %d tokens in %d ids, %v", perToken, rows[0].InputLength, len(rows[0].HashIDs), err)
		}
	}
}

func TestPrefixModel(t *testing.T) {
	var b strings.Builder
	b.WriteString("Timestamp,Request tokens,Response tokens\n")
	for i := range 2000 {
		fmt.Fprintf(&b, "%d,2000,1\n", i)
	}
	m, err := ParsePrefixModel("4,1024,1,9")
	if err != nil || m.Flag() != "4,1024,1,9" {
		t.Fatal(m, err)
	}
	rows, _, err := readFormat(t, b.String(), ReaderOptions{Prefixes: m})
	if err != nil {
		t.Fatal(err)
	}
	groups := map[uint64]float64{}
	own := map[uint64]bool{}
	for _, q := range rows {
		if len(q.HashIDs) != 4 || q.HashIDs[1] != q.HashIDs[0]+1 {
			t.Fatalf("ids %v", q.HashIDs)
		}
		groups[q.HashIDs[0]]++
		own[q.HashIDs[2]], own[q.HashIDs[3]] = true, true
	}
	if len(groups) != 4 || len(own) != 4000 {
		t.Errorf("%d groups, %d ids of single rows", len(groups), len(own))
	}
	// Weights 1, 1/2, 1/3, 1/4; five standard deviations.
	for i := range 4 {
		p := 1 / float64(i+1) / (25.0 / 12)
		if n := groups[1<<63|uint64(i)<<32]; math.Abs(n-2000*p) > 5*math.Sqrt(2000*p*(1-p)) {
			t.Errorf("group %d has %v of 2000, want about %.0f", i, n, 2000*p)
		}
	}
	if m, err := ParsePrefixModel("3,100"); err != nil || *m != (PrefixModel{3, 100, 1, 1}) {
		t.Errorf("%v, %v", m, err)
	}
	for _, bad := range []string{"", "3", "a,1", "1,1,1,1,1", "0,1", "1,-1", "1,1,11", "1,1,NaN", "1,1,1,-1"} {
		if _, err := ParsePrefixModel(bad); err == nil || !strings.Contains(err.Error(), "--shared-prefix") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestParquetTable(t *testing.T) {
	nan := math.NaN()
	want := []Request{
		{1, "", 0, nan, 600, 1, []uint64{0, math.MaxUint64}},
		{2, "séance", 1.5, nan, 0, 0, nil},
		{3, "séance", nan, 2.5, 1, math.MaxInt32, []uint64{7}},
	}
	for i := range 300 { // more than the reader takes at a time
		want = append(want, Request{4 + i, "", float64(i), nan, 512, 1, []uint64{uint64(i)}})
	}
	var b bytes.Buffer
	w := NewParquetWriter(&b, 600)
	params := ConversationParams()
	if err := w.SetGenerator(params.Record()); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if err := w.Write(&want[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write(&Request{Timestamp: -1}); err == nil {
		t.Error("a row that cannot be read is written")
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	check := func(in io.Reader) {
		t.Helper()
		r, err := NewReader(in, "t", ReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var q Request
		for i := range want {
			if err := r.Read(&q); err != nil || !same(q, want[i]) {
				t.Fatalf("row %d: %+v, %v", i, q, err)
			}
		}
		if err := r.Read(&q); err != io.EOF || r.BlockSize() != 600 || r.Format() != Parquet || string(r.Generator()) != string(params.Record()) {
			t.Errorf("%v, %d tokens, %s, %s", err, r.BlockSize(), r.Format(), r.Generator())
		}
	}
	check(bytes.NewReader(b.Bytes()))
	path := filepath.Join(t.TempDir(), "t")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	check(f)
	tr, src, err := Load(t.Context(), path, ReaderOptions{Format: Parquet, BlockSize: 600}, nil)
	if err != nil || tr.Len() != len(want) || src.Bytes != int64(b.Len()) || len(src.SHA256) != 64 {
		t.Errorf("%v, %+v", err, src)
	}

	for name, tc := range map[string]struct {
		in   io.Reader
		opts ReaderOptions
		want string
	}{
		"stream":     {io.MultiReader(bytes.NewReader(b.Bytes())), ReaderOptions{}, "give the file itself"},
		"gzip":       {bytes.NewReader(gzipped(b.String())), ReaderOptions{}, "decompress it first"},
		"cut":        {bytes.NewReader(b.Bytes()[:b.Len()-3]), ReaderOptions{}, "is a Parquet file that cannot be read"},
		"block size": {bytes.NewReader(b.Bytes()), ReaderOptions{BlockSize: 512}, "the file says 600"},
		"time unit":  {bytes.NewReader(b.Bytes()), ReaderOptions{TimeUnit: "s"}, "leave them out"},
		"not one":    {strings.NewReader(mooncakeRow), ReaderOptions{Format: Parquet}, "cannot be read"},
	} {
		if _, err := NewReader(tc.in, "t", tc.opts); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestParquetTableOfOthers reads tables with other columns than ours: such as could
// be read as ours, with null or 0 for what is not there.
func TestParquetTableOfOthers(t *testing.T) {
	type row struct {
		Timestamp *float64 `parquet:"timestamp_ms,optional"`
		Delay     *float64 `parquet:"delay_ms,optional"`
		Session   *string  `parquet:"session_id,optional"`
		Input     *int32   `parquet:"input_tokens,optional"`
		Output    *int32   `parquet:"output_tokens,optional"`
		HashIDs   []uint64 `parquet:"hash_ids,list"`
	}
	type misnamed struct {
		Timestamp *float64 `parquet:"timestamp_mz,optional"`
		Delay     *float64 `parquet:"delay_ms,optional"`
		Session   *string  `parquet:"session_id,optional"`
		Input     int32    `parquet:"input_tokens"`
		Output    int32    `parquet:"output_tokens"`
		HashIDs   []uint64 `parquet:"hash_ids,list"`
	}
	type other struct {
		Timestamp *string  `parquet:"timestamp_ms,optional"`
		Delay     *float64 `parquet:"delay_ms,optional"`
		Session   *string  `parquet:"session_id,optional"`
		Input     int32    `parquet:"input_tokens"`
		Output    int32    `parquet:"output_tokens"`
		HashIDs   []uint64 `parquet:"hash_ids,list"`
	}
	at, in, out := 7.0, int32(700), int32(5)
	meta := []parquet.WriterOption{parquet.KeyValueMetadata(ParquetSchemaKey, ParquetSchema), parquet.KeyValueMetadata(ParquetBlockSizeKey, "512")}
	for name, c := range map[string]struct {
		write func(io.Writer) error
		want  string // "": it is read
	}{
		"may be null": {func(w io.Writer) error {
			return parquet.Write(w, []row{{Timestamp: &at, Input: &in, Output: &out, HashIDs: []uint64{1, 2}}}, meta...)
		}, ""},
		"null": {func(w io.Writer) error {
			return parquet.Write(w, []row{{Timestamp: &at, Output: &out, HashIDs: []uint64{1, 2}}}, meta...)
		}, "column input_tokens has nulls"},
		"other name": {func(w io.Writer) error {
			return parquet.Write(w, []misnamed{{Timestamp: &at, Input: in}}, meta...)
		}, "column timestamp_ms is missing"},
		"other type": {func(w io.Writer) error { return parquet.Write(w, []other{{Input: in}}, meta...) }, "column timestamp_ms is of type"},
	} {
		var b bytes.Buffer
		if err := c.write(&b); err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(bytes.NewReader(b.Bytes()), "t", ReaderOptions{})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			continue
		}
		var q Request
		if err == nil {
			err = r.Read(&q)
		}
		if err != nil || q.Timestamp != at || q.InputLength != int(in) || q.OutputLength != int(out) || len(q.HashIDs) != 2 {
			t.Errorf("%s: %v, %+v", name, err, q)
		}
	}
}

func TestReadingText(t *testing.T) {
	if got := (ReaderOptions{MaxLineBytes: 5, TokenMS: DefaultTokenMS}).Text(Mooncake); got != "" {
		t.Errorf("got %q", got)
	}
	got := ReaderOptions{TimeUnit: "s", Lenient: true, MissingOutput: 5, KeepIDs: true, Prefixes: &PrefixModel{1, 2, 3, 4},
		SessionsPerSecond: 0.5, BytesPerToken: 4, TokenMS: 10}.Text(Azure)
	if want := "azure --time-unit=s --lenient=true --missing-output=5 --keep-ids=true --shared-prefix=1,2,3,4 --arrivals-per-second=0.5 --bytes-per-token=4 --token-ms=10"; got != want {
		t.Errorf("got %q", got)
	}
}

// FuzzFormats holds every reader to: no panic, errors that name the file, and
// requests that a trace takes as far as they go.
func FuzzFormats(f *testing.F) {
	var table bytes.Buffer
	w := NewParquetWriter(&table, 512)
	_ = w.Write(&Request{Session: "s", Delay: math.NaN(), InputLength: 5, HashIDs: []uint64{1}})
	_ = w.Flush()
	formats := append([]Format{Auto}, Formats()...)
	for i := range formats {
		for _, text := range []string{mooncakeRow, bailianRow, azureRows, burstRows, v1Rows, v2Rows, appliedRow, table.String(),
			`{"text_input": "hello", "output_length": 5, "timestamp": 1, "session_id": 3}`} {
			f.Add(byte(i), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		opts := ReaderOptions{Format: formats[int(which)%len(formats)], MaxLineBytes: 1 << 12, BytesPerToken: 4, MissingOutput: 3, Lenient: which&128 != 0}
		switch opts.Format {
		case Azure, BurstGPT:
			opts.Prefixes = &PrefixModel{Groups: 3, Tokens: 600}
		case AppliedCompute:
			opts.SessionsPerSecond = 2
		}
		// Lengths up to 2^31 take ids for each block.
		opts.BlockSize = 1 << 24
		if opts.Format == Auto || opts.Format == Agentic || opts.Format == Parquet {
			opts.BlockSize = 0
		}
		r, err := NewReader(bytes.NewReader(data), "t", opts)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "t") && !strings.HasPrefix(err.Error(), "--") {
				t.Errorf("the error %q does not name the file", err)
			}
			return
		}
		defer r.Close()
		for range 100 {
			var q Request
			err := r.Read(&q)
			if err == io.EOF {
				return
			}
			if err != nil {
				var parse *ParseError
				if !errors.As(err, &parse) || parse.File != "t" {
					t.Errorf("got %v, want a ParseError", err)
				}
				return
			}
			if field, err := checkRequest(&q); err != nil || len(q.HashIDs)*r.BlockSize() < q.InputLength && r.Format() != Parquet {
				t.Fatalf("%s: %+v: %s: %v", r.Format(), q, field, err)
			}
		}
	})
}
