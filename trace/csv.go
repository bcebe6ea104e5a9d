package trace

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// csvDecoder reads rows of Azure and BurstGPT: see Reader. It makes up ids, as
// the rows have none: those of shared prefixes are above all others.
type csvDecoder struct {
	r       *Reader
	columns []int // by column, -1 before the header was read
	names   []string
	numbers int // of columns in the header
	fields  []string
	content content
	origin  time.Time // of the first row
	model   *prefixDraw
}

// The columns that are read.
const (
	columnTime = iota
	columnInput
	columnOutput
	numColumns
)

func newCSVDecoder(r *Reader) *csvDecoder {
	d := &csvDecoder{r: r, content: content{blockSize: r.opts.BlockSize}}
	if r.format == Azure {
		d.names = []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}
	} else {
		d.names = []string{"Timestamp", "Request tokens", "Response tokens"}
		r.notes = append(r.notes, "columns of models, sessions and types are not read")
	}
	if r.opts.Prefixes != nil {
		d.model = newPrefixDraw(r.opts.Prefixes)
	}
	return d
}

func (d *csvDecoder) more(*Request) bool { return false }

func (d *csvDecoder) line(line []byte, req *Request) bool {
	r := d.r
	if err := d.split(line); err != nil {
		r.fail("", err)
		return false
	}
	if d.columns == nil {
		return d.header()
	}
	if len(d.fields) != d.numbers {
		r.fail("", fmt.Errorf("the row has %d columns and the header %d; is the row cut?", len(d.fields), d.numbers))
		return false
	}
	*req = Request{HashIDs: req.HashIDs[:0], Timestamp: d.time(), Delay: math.NaN(),
		InputLength: d.length(columnInput), OutputLength: d.length(columnOutput)}
	if r.failed() {
		return false
	}
	if r.format == BurstGPT && req.OutputLength == 0 {
		r.note(failedRequest)
	}
	d.ids(req)
	return true
}

// split cuts a line into fields.
func (d *csvDecoder) split(line []byte) error {
	d.fields = d.fields[:0]
	if bytes.IndexByte(line, '"') >= 0 {
		in := csv.NewReader(bytes.NewReader(line))
		fields, err := in.Read()
		if err != nil {
			return fmt.Errorf("is no row of CSV (%w); give one request a line", err)
		}
		d.fields = append(d.fields, fields...)
		return nil
	}
	for field := range strings.SplitSeq(string(line), ",") {
		d.fields = append(d.fields, strings.TrimSpace(field))
	}
	return nil
}

func (d *csvDecoder) header() bool {
	var columns []int
	for _, name := range d.names {
		i := slices.IndexFunc(d.fields, func(f string) bool { return strings.EqualFold(f, name) })
		if i < 0 {
			d.r.fail("", fmt.Errorf("the header has no column %s; the first line names the columns, as in %s", name, strings.Join(d.names, ",")))
			return false
		}
		columns = append(columns, i)
	}
	d.columns, d.numbers = columns, len(d.fields)
	return false
}

func (d *csvDecoder) field(column int) string { return d.fields[d.columns[column]] }

func (d *csvDecoder) length(column int) int {
	n, err := d.r.parseLength([]byte(d.field(column)))
	if d.field(column) == "" {
		err = errors.New("is empty; give a number of tokens")
	}
	if err != nil {
		d.r.fail(d.names[column], err)
	}
	return n
}

// The layouts of the releases of 2023 and 2024.
var azureLayouts = []string{"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", time.RFC3339Nano}

func (d *csvDecoder) time() float64 {
	text := d.field(columnTime)
	if text == "" {
		d.r.fail(d.names[columnTime], errors.New("is empty; give the time of arrival"))
		return math.NaN()
	}
	if d.r.format == BurstGPT {
		ms, err := d.r.parseTime([]byte(text))
		if err != nil {
			d.r.fail(d.names[columnTime], err)
		}
		return ms
	}
	for _, layout := range azureLayouts {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if d.origin.IsZero() {
			d.origin = t
			d.r.notes = append(d.r.notes, "time 0 is "+t.Format(time.RFC3339Nano))
		}
		ms := float64(t.Sub(d.origin)) / 1e6
		if ms < 0 {
			d.r.fail(d.names[columnTime], fmt.Errorf("%s is before the first row, %s; sort the rows by time", text, d.origin.Format(time.RFC3339Nano)))
		}
		return ms
	}
	d.r.fail(d.names[columnTime], fmt.Errorf("%s is no time; give one as in 2023-11-16 18:17:03.97", excerpt(text)))
	return math.NaN()
}

// ids makes up the ids of a prompt.
func (d *csvDecoder) ids(req *Request) {
	p := prefix{ids: req.HashIDs}
	rest := req.InputLength
	if d.model == nil {
		d.r.note(madeUpIDs)
	} else {
		d.r.note(madeUpPrefix)
		// The last token is always the request's own.
		full := max(0, min(d.model.Tokens, req.InputLength-1)) / d.content.blockSize
		group := d.model.group()
		for i := range full {
			p.ids = append(p.ids, 1<<63|uint64(group)<<32|uint64(i))
		}
		rest -= full * d.content.blockSize
	}
	for ; rest > 0; rest -= d.content.blockSize {
		p.ids = append(p.ids, d.content.newID())
	}
	req.HashIDs = p.ids
}

// PrefixModel says which prompts share a prefix in a trace of lengths alone:
// every request belongs to one of Groups, group i with a weight of 1/i^Skew, and
// begins with the full blocks of its group's Tokens tokens, as far as its prompt
// is longer. The draws depend on Seed and the number of the row alone.
type PrefixModel struct {
	Groups int
	Tokens int
	Skew   float64
	Seed   uint64
}

// Flag returns what ParsePrefixModel reads.
func (m *PrefixModel) Flag() string {
	return fmt.Sprintf("%d,%d,%v,%d", m.Groups, m.Tokens, m.Skew, m.Seed)
}

// String describes the model in words.
func (m *PrefixModel) String() string {
	return fmt.Sprintf("%d groups, %d tokens, skew %v, seed %d", m.Groups, m.Tokens, m.Skew, m.Seed)
}

// ParsePrefixModel reads "groups,tokens[,skew[,seed]]"; skew is 1 and seed 1
// unless given.
func ParsePrefixModel(text string) (*PrefixModel, error) {
	parts := strings.Split(text, ",")
	bad := fmt.Errorf("--shared-prefix is %q; give groups,tokens,skew,seed, as in 20,1024,1,1, the last two or the last one of which may be left out", text)
	if len(parts) < 2 || len(parts) > 4 {
		return nil, bad
	}
	m := PrefixModel{Skew: 1, Seed: 1}
	var errs [4]error
	m.Groups, errs[0] = strconv.Atoi(parts[0])
	m.Tokens, errs[1] = strconv.Atoi(parts[1])
	if len(parts) > 2 {
		m.Skew, errs[2] = strconv.ParseFloat(parts[2], 64)
	}
	if len(parts) > 3 {
		m.Seed, errs[3] = strconv.ParseUint(parts[3], 10, 64)
	}
	if errors.Join(errs[:]...) != nil {
		return nil, bad
	}
	return &m, m.validate()
}

func (m *PrefixModel) validate() error {
	switch {
	case m == nil:
		return nil
	case m.Groups < 1 || m.Groups > 1e6:
		return fmt.Errorf("--shared-prefix has %d groups; give 1 to 1000000", m.Groups)
	case m.Tokens < 0 || m.Tokens > maxLength:
		return fmt.Errorf("--shared-prefix has %d tokens; give 0 to %d", m.Tokens, maxLength)
	case !(m.Skew >= 0 && m.Skew <= 10):
		return fmt.Errorf("--shared-prefix has the skew %v; give 0 to 10", m.Skew)
	}
	return nil
}

type prefixDraw struct {
	*PrefixModel
	draw    draw
	weights []float64 // summed up
}

func newPrefixDraw(m *PrefixModel) *prefixDraw {
	d := &prefixDraw{PrefixModel: m, draw: draw{rand.NewPCG(m.Seed, 0x7072656669786573)}}
	sum := 0.0
	for i := range m.Groups {
		sum += 1 / exp(float64(m.Skew*log(float64(i+1))))
		d.weights = append(d.weights, sum)
	}
	return d
}

func (d *prefixDraw) group() int {
	u := float64(d.draw.uniform() * d.weights[len(d.weights)-1])
	i, _ := slices.BinarySearch(d.weights, u)
	return min(i, len(d.weights)-1)
}
