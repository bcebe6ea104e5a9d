package trace

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Format is the form that a trace is written in.
type Format string

// The formats that a Reader reads. By content means: by the first line, or the
// first bytes, and never by the name of the file.
const (
	// Auto finds the format by content.
	Auto Format = ""
	// Mooncake is the form of the public Mooncake traces (both releases) and of
	// Dynamo's replay: JSON lines, times in ms, 512 tokens an id. Each turn of a
	// session names its whole prompt.
	Mooncake Format = "mooncake"
	// AIPerf is AIPerf's reading of that form: a turn of a session adds to the
	// prompt and answer before it; rows may have lengths without ids, or text.
	AIPerf Format = "aiperf"
	// Bailian is the form of the Qwen-Bailian usage traces: JSON lines, times in
	// seconds, 16 tokens an id, ids that hash single blocks.
	Bailian Format = "bailian"
	// Agentic is Dynamo's agentic_mooncake form, versions 1 and 2: requests that
	// wait for other requests. See Agentic under Reader for what is lost.
	Agentic Format = "agentic"
	// AppliedCompute is the applied_compute_agentic form: a line is a session with
	// the lengths of its turns, tool waits in seconds and no arrival times.
	AppliedCompute Format = "applied-compute"
	// Azure is the CSV of the Azure LLM inference traces of 2023 and 2024: lengths
	// alone, times as text.
	Azure Format = "azure"
	// BurstGPT is the CSV of BurstGPT: lengths alone, times in seconds.
	BurstGPT Format = "burstgpt"
	// Parquet is a table of kvbench's own: see ParquetWriter.
	Parquet Format = "parquet"
)

// Formats returns the formats that can be named.
func Formats() []Format {
	return []Format{Mooncake, AIPerf, Bailian, Agentic, AppliedCompute, Azure, BurstGPT, Parquet}
}

// ParseFormat returns the format of that name; "auto" is Auto.
func ParseFormat(name string) (Format, error) {
	if name == "" || name == "auto" {
		return Auto, nil
	}
	if f := Format(name); slices.Contains(Formats(), f) {
		return f, nil
	}
	var names []string
	for _, f := range Formats() {
		names = append(names, string(f))
	}
	return Auto, fmt.Errorf("%q is no format of a trace; there are auto, %s", name, strings.Join(names, ", "))
}

// defaultBlockSize is the number of tokens that an id of the format stands for
// unless the reader is told another.
func (f Format) defaultBlockSize() int {
	if f == Bailian {
		return 16
	}
	return DefaultBlockSize
}

// describe says in what units a format is written.
func (f Format) units() string {
	switch f {
	case Bailian, BurstGPT:
		return "times in seconds"
	case AppliedCompute:
		return "no arrival times, tool waits in seconds"
	case Azure:
		return "times as dates, counted from the first row"
	}
	return "times in ms"
}

// detect finds the format of a text by its first line. by says what it was
// found by.
func detect(line []byte) (f Format, by string, err error) {
	switch line[0] {
	case '{':
		return detectJSON(line)
	case '[':
		return "", "", errors.New("is a JSON list; a trace is JSON lines, one request a line: jq -c '.[]' makes it so")
	}
	header := strings.ToLower(string(line[:min(len(line), 1<<10)]))
	has := func(column string) bool { return strings.Contains(header, column) }
	switch {
	case has("timestamp") && has("contexttokens"):
		return Azure, "the columns TIMESTAMP and ContextTokens", nil
	case has("timestamp") && has("request tokens"):
		return BurstGPT, "the columns Timestamp and Request tokens", nil
	case has("arrived_at") || has("num_prefill_tokens"):
		return "", "", errors.New("looks like a trace of Vidur, which is not read; rename its columns to those of BurstGPT: Timestamp, Request tokens, Response tokens")
	}
	// What it is instead is said by the JSON reader, at its place.
	return Mooncake, "", nil
}

// detectJSON tells the forms of JSON lines apart by the names of the fields. What
// is no JSON is Mooncake's to refuse.
func detectJSON(line []byte) (Format, string, error) {
	if !validObject(line) {
		return Mooncake, "", nil
	}
	found := map[string]bool{}
	v2 := false
	for s := (scanner{b: line, i: 1}); ; {
		key, value, ok := s.next()
		if !ok {
			break
		}
		found[string(key)] = true
		if string(key) == "schema" && bytes.HasPrefix(value, []byte(`"dynamo.agentic_mooncake`)) {
			v2 = true
		}
	}
	switch {
	case v2:
		return Agentic, `the header with the schema "dynamo.agentic_mooncake"`, nil
	case found["chat_id"]:
		return Bailian, "the field chat_id", nil
	case found["num_turns"] && found["input_prompt_length"]:
		return AppliedCompute, "the fields num_turns and input_prompt_length", nil
	}
	for _, key := range []string{"wait_for", "branches", "tool_wait_ms", "prefix_reset", "dependencies"} {
		if found[key] {
			return Agentic, "the field " + key, nil
		}
	}
	for _, key := range []string{"text_input"} {
		if found[key] {
			return AIPerf, "the field " + key, nil
		}
	}
	for _, key := range []string{"conversations", "conversation", "messages"} {
		if found[key] && !found["hash_ids"] {
			return "", "", fmt.Errorf("has the field %s: text of conversations, whose lengths take a tokenizer; give one row a request with text_input, and --bytes-per-token", key)
		}
	}
	if found["hash_ids"] {
		return Mooncake, "the field hash_ids", nil
	}
	return Mooncake, "", nil
}
