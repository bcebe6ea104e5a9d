package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/trace"
	"github.com/kvbench/kvbench/trace/rewrite"
	"github.com/kvbench/kvbench/traces"
)

// rewriteFlags are those of all commands that read a trace and write another.
type rewriteFlags struct {
	reading   readingFlags
	out       string
	as        string
	overwrite bool
}

func (f *rewriteFlags) register(cmd *cobra.Command) {
	f.reading.register(cmd.Flags())
	f.reading.complete(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&f.out, "out", "o", "", "file to write; .gz and .zst compress it, .parquet makes it a table (default: lines on standard output)")
	fl.StringVar(&f.as, "as", "auto", "form to write: mooncake, aiperf or parquet; auto takes it from the name of --out")
	fl.BoolVar(&f.overwrite, "overwrite", false, "replace the file of --out if it exists")
	_ = cmd.RegisterFlagCompletionFunc("as", fixed("auto", string(trace.Mooncake), string(trace.AIPerf), string(trace.Parquet)))
}

// openTrace begins to read a trace, and says what was inferred about it if that is
// wanted.
func (a *app) openTrace(cmd *cobra.Command, source string, f *readingFlags, progress func(done, total int64)) (*openedTrace, error) {
	opts, err := f.options()
	if err != nil {
		return nil, err
	}
	file, err := traces.OpenFile(source)
	if err != nil {
		return nil, err
	}
	in, err := trace.OpenStream(cmd.Context(), file, source, opts, progress)
	if err != nil {
		file.Close()
		return nil, err
	}
	return &openedTrace{in, file}, nil
}

// openedTrace closes its file too.
type openedTrace struct {
	*trace.Stream
	file io.Closer
}

func (t *openedTrace) Close() {
	t.Stream.Close()
	t.file.Close()
}

// say tells what was inferred about a trace that was read, and what was odd.
func (a *app) say(in *openedTrace) {
	for _, text := range in.Notes() {
		a.noteTrace(text)
	}
	for _, text := range in.Warnings() {
		a.warn(text)
	}
}

// writeTrace writes the requests of src as the flags say. generator may be nil.
func (a *app) writeTrace(f *rewriteFlags, blockSize int, generator json.RawMessage, src rewrite.Source) error {
	encoding, err := f.encoding()
	if err != nil {
		return err
	}
	if !f.toFile() {
		_, err := a.encodeTrace(a.stdout, encoding, blockSize, generator, src)
		return err
	}
	file, err := atomicfile.Create(f.out, f.overwrite)
	if err != nil {
		return err
	}
	n, err := a.encodeTrace(file, encoding, blockSize, generator, src)
	if err != nil {
		return errors.Join(err, file.Abort())
	}
	if err := file.Commit(); err != nil {
		return err
	}
	if !a.quiet {
		fmt.Fprintf(a.stdout, "%s: %s as %s\n", f.out, count(n, "request"), encoding.Format)
	}
	return nil
}

// encodeTrace writes the requests of src and says what was lost by that.
func (a *app) encodeTrace(to io.Writer, encoding rewrite.Encoding, blockSize int, generator json.RawMessage, src rewrite.Source) (requests int, err error) {
	w, err := rewrite.NewWriter(to, encoding, blockSize)
	if err != nil {
		return 0, err
	}
	if err := w.SetGenerator(generator); err != nil {
		return 0, err
	}
	n, err := rewrite.Copy(w, src)
	if err == nil && n == 0 {
		err = errors.New("no request is left; nothing was written")
	}
	// The first error says why; closing what failed fails again.
	if e := w.Close(); err == nil {
		err = e
	}
	if err != nil {
		return n, err
	}
	for _, text := range w.Notes() {
		a.noteTrace(text)
	}
	for _, text := range w.Warnings() {
		a.warn(text)
	}
	return n, nil
}

func (f *rewriteFlags) toFile() bool { return f.out != "" && f.out != "-" }

// encoding checks what is to be written, and where: not in the place of an input.
func (f *rewriteFlags) encoding(inputs ...string) (rewrite.Encoding, error) {
	format, err := trace.ParseFormat(f.as)
	if err != nil {
		return rewrite.Encoding{}, fmt.Errorf("--as: %w", err)
	}
	encoding, err := rewrite.EncodingOf(f.out, format)
	if err != nil {
		return encoding, fmt.Errorf("--out and --as: %w", err)
	}
	if f.toFile() {
		if err := checkOutputs(f.overwrite, inputs, outputFile{"--out", f.out}); err != nil {
			return encoding, err
		}
	}
	return encoding, nil
}

// rewrite reads one trace and writes what change makes of it. keep says that the
// parameters of a generator still hold.
func (a *app) rewrite(cmd *cobra.Command, f *rewriteFlags, source string, keep bool, change func(rewrite.Source) (rewrite.Source, error)) error {
	if _, err := f.encoding(source); err != nil {
		return err
	}
	progress := a.progress()
	defer progress.Done()
	in, err := a.openTrace(cmd, source, &f.reading, progress.of("read and write"))
	if err != nil {
		return err
	}
	defer in.Close()
	src, err := change(in)
	if err != nil {
		return err
	}
	src = rewrite.Named(source, src)
	var generator json.RawMessage
	if keep {
		if src, err = peeked(src); err != nil {
			return err
		}
		generator = in.Generator()
	}
	if err := a.writeTrace(f, in.BlockSize(), generator, src); err != nil {
		return err
	}
	progress.Done()
	a.say(in)
	return nil
}

// peeked reads the first request ahead, which tells whether a generator made the
// trace.
func peeked(src rewrite.Source) (rewrite.Source, error) {
	p := &peek{src: src}
	if p.err = src.Read(&p.first); p.err != nil && p.err != io.EOF {
		return nil, p.err
	}
	p.ahead = true
	return p, nil
}

type peek struct {
	src   rewrite.Source
	first trace.Request
	err   error
	ahead bool
}

func (p *peek) Read(q *trace.Request) error {
	if p.ahead {
		*q, p.ahead = p.first, false
		return p.err
	}
	return p.src.Read(q)
}
