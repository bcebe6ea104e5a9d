// Package fetch downloads files of known size and SHA-256, as the public traces
// are, and goes on where an earlier download ended.
//
// What arrives is written to a partial file beside the target, verified, synced
// and renamed, so that a file of the target's name always is the right one. It
// does not know which files there are: see package traces.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/buildinfo"
)

// File is what to fetch.
type File struct {
	Name   string // of the file in the folder
	URL    string
	Bytes  int64
	SHA256 string // in hex
}

// Options say how to fetch. The zero value fetches to the working folder.
type Options struct {
	// Dir is the folder of the file. It must exist.
	Dir string
	// BaseURL is the address of a mirror: a folder of the files, or a host with the
	// paths of the original addresses. The first that is not missing is used.
	BaseURL string
	// Overwrite replaces a file of the same name that is not the right one.
	Overwrite bool
	// Tries is how often to try in a row without a byte of progress, 0 for 4, and
	// Pause the time before the second, which doubles each time, 0 for 1 s.
	Tries int
	Pause time.Duration
	// Stall is how long nothing may arrive before a try ends, 0 for 30 s.
	Stall time.Duration
	// Progress, if not nil, is told how many bytes there are of how many.
	Progress func(done, total int64)
	// Log, if not nil, is told of each try.
	Log *slog.Logger
	// Client is http.DefaultClient unless given.
	Client *http.Client
}

// Result says what was done.
type Result struct {
	Path string
	// Existed says that the right file was there already.
	Existed bool
	// Resumed is how many bytes an earlier download had left.
	Resumed int64
	// URL is the address that the file came from, before redirects.
	URL string
}

// MismatchError says that what the address has is not the file.
type MismatchError struct {
	URL       string
	What      string // size or sha256
	Got, Want string
	arrived   bool // and is in the partial file
}

// Error implements error.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: refused, as the %s is %s and not %s: the file has changed, or the address serves another one", e.URL, e.What, e.Got, e.Want)
}

// errMissing is a 404 or 410, after which a mirror's other address is tried.
var errMissing = errors.New("not found")

// permanent is an error that another try does not mend.
type permanent struct{ err error }

func (p permanent) Error() string { return p.err.Error() }
func (p permanent) Unwrap() error { return p.err }

// Fetch downloads the file. If it is there already it is verified, and nothing is
// downloaded. Two at a time do not fetch the same file to the same folder: the
// second ends with an error. When ctx ends, what has arrived stays for the next
// time.
func Fetch(ctx context.Context, f File, opts Options) (Result, error) {
	setDefaults(&opts)
	addresses, err := f.addresses(opts.BaseURL)
	if err != nil {
		return Result{}, err
	}
	res := Result{Path: filepath.Join(opts.Dir, f.Name)}
	if ok, err := f.there(res.Path, opts.Overwrite); ok || err != nil {
		res.Existed = ok
		return res, err
	}
	p, err := openPartial(res.Path+".part", f.Bytes)
	if err != nil {
		return res, err
	}
	defer p.close()
	res.Resumed = p.done

	var missing []string
	for _, address := range addresses {
		res.URL = address
		err = f.download(ctx, address, p, opts)
		if !errors.Is(err, errMissing) {
			break
		}
		missing = append(missing, address)
	}
	if len(missing) == len(addresses) {
		return res, fmt.Errorf("%s: %w; is the address right?", strings.Join(missing, " and "), errMissing)
	}
	if mismatch := (*MismatchError)(nil); errors.As(err, &mismatch) && mismatch.arrived {
		return res, errors.Join(err, p.remove())
	}
	if err != nil {
		return res, err
	}
	if err := p.file.Sync(); err != nil {
		return res, fmt.Errorf("write %s: %w", p.path, err)
	}
	return res, atomicfile.Move(p.path, res.Path, opts.Overwrite)
}

func setDefaults(o *Options) {
	if o.Tries == 0 {
		o.Tries = 4
	}
	if o.Pause == 0 {
		o.Pause = time.Second
	}
	if o.Stall == 0 {
		o.Stall = 30 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
}

// addresses are where the file may be.
func (f File) addresses(base string) ([]string, error) {
	if base == "" {
		return []string{f.URL}, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--base-url is %q; give the address of a mirror, such as https://mirror.example/traces", base)
	}
	original, err := url.Parse(f.URL)
	if err != nil {
		return nil, err
	}
	return []string{u.JoinPath(f.Name).String(), u.JoinPath(original.Path).String()}, nil
}

// there says whether the right file is at path. Another one is an error unless it
// is to be replaced.
func (f File) there(path string, overwrite bool) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, atomicfile.CheckWritable(path, overwrite)
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a regular file; choose another folder with --dir", path)
	}
	sum := "not looked at"
	if info.Size() == f.Bytes {
		if sum, err = sumOf(path); err != nil {
			return false, err
		}
	}
	if sum == f.SHA256 {
		return true, nil
	}
	if !overwrite {
		return false, fmt.Errorf("%s exists and is another file: %d bytes, want %d; sha256 %s, want %s; remove it, choose another folder with --dir, or pass --overwrite",
			path, info.Size(), f.Bytes, sum, f.SHA256)
	}
	return false, atomicfile.CheckWritable(path, true)
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// download brings the partial file to its end and verifies it. Bytes of an earlier
// download that turn out wrong are fetched again once.
func (f File) download(ctx context.Context, address string, p *partial, opts Options) error {
	old := p.done > 0
	for {
		if err := f.complete(ctx, address, p, opts); err != nil {
			return err
		}
		got := hex.EncodeToString(p.hash.Sum(nil))
		if got == f.SHA256 {
			return nil
		}
		if !old {
			return &MismatchError{address, "sha256", got, f.SHA256, true}
		}
		opts.Log.Info("what an earlier download left is wrong; fetching all of it again", "url", address)
		old = false
		if err := p.truncate(); err != nil {
			return err
		}
	}
}

// complete asks for what is missing until all is there, or tries make no progress.
func (f File) complete(ctx context.Context, address string, p *partial, opts Options) error {
	failed := 0
	for p.done < f.Bytes {
		before := p.done
		err := f.get(ctx, address, p, opts)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if done := (permanent{}); errors.As(err, &done) {
			return done.err
		}
		if err == nil && p.done > before {
			continue
		}
		if err == nil {
			err = fmt.Errorf("%s: the answer has none of the %d bytes that are missing", address, f.Bytes-p.done)
		}
		if failed++; p.done > before {
			failed = 1
		}
		if failed >= opts.Tries {
			return fmt.Errorf("%w; %d of %d bytes are kept in %s, and the same command goes on from there", err, p.done, f.Bytes, p.path)
		}
		pause := opts.Pause << (failed - 1)
		opts.Log.Info("the download broke off; trying again", "url", address, "done", p.done, "total", f.Bytes, "pause", pause, "err", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return nil
}

// get makes one request for what is missing and writes what comes.
func (f File) get(ctx context.Context, address string, p *partial, opts Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := fmt.Errorf("%s: nothing has arrived for %v", address, opts.Stall)
	stall := time.AfterFunc(opts.Stall, func() { cancel(stalled) })
	defer stall.Stop()
	err := f.request(ctx, address, p, opts, func() { stall.Reset(opts.Stall) })
	if err != nil && context.Cause(ctx) == stalled {
		return stalled
	}
	return err
}

func (f File) request(ctx context.Context, address string, p *partial, opts Options, alive func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return permanent{err}
	}
	req.Header.Set("User-Agent", "kvbench/"+buildinfo.Read().Version)
	// Ranges are of the file itself, so it must not be compressed on the way.
	req.Header.Set("Accept-Encoding", "identity")
	if p.done > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.done))
	}
	resp, err := opts.Client.Do(req)
	if err != nil {
		return err // names the address
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPartialContent:
		var from, to int64
		var size string
		if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%s", &from, &to, &size); err != nil || from != p.done {
			// It does not do what it was asked; ask for all of it.
			if err := p.truncate(); err != nil {
				return permanent{err}
			}
			return fmt.Errorf("%s: the range in the answer is %q", address, resp.Header.Get("Content-Range"))
		}
		if size != "*" && size != fmt.Sprint(f.Bytes) {
			return permanent{&MismatchError{address, "size", size + " bytes", fmt.Sprint(f.Bytes), false}}
		}
	case resp.StatusCode == http.StatusOK:
		if resp.ContentLength >= 0 && resp.ContentLength != f.Bytes {
			return permanent{&MismatchError{address, "size", fmt.Sprintf("%d bytes", resp.ContentLength), fmt.Sprint(f.Bytes), false}}
		}
		// A server without ranges sends the file from its start.
		if err := p.truncate(); err != nil {
			return permanent{err}
		}
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		if err := p.truncate(); err != nil {
			return permanent{err}
		}
		return fmt.Errorf("%s: %s", address, resp.Status)
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return permanent{errMissing}
	case resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return fmt.Errorf("%s: %s", address, resp.Status)
	default:
		return permanent{fmt.Errorf("%s: %s", address, resp.Status)}
	}
	if how := resp.Header.Get("Content-Encoding"); how != "" && how != "identity" {
		return permanent{fmt.Errorf("%s: the answer is compressed with %s although it was asked not to be", address, how)}
	}
	err = p.copy(resp.Body, f.Bytes, func(done, total int64) {
		alive()
		opts.Progress(done, total)
	})
	switch {
	case errors.Is(err, errTooLong):
		return permanent{&MismatchError{address, "size", fmt.Sprintf("more than %d bytes", f.Bytes), fmt.Sprint(f.Bytes), true}}
	case errors.As(err, new(writeError)):
		return permanent{err}
	case err != nil:
		return fmt.Errorf("%s: %w", address, err)
	case p.done < f.Bytes && resp.ContentLength < 0:
		// The server said no length and has ended: that is all it has.
		return permanent{&MismatchError{address, "size", fmt.Sprintf("%d bytes", p.done), fmt.Sprint(f.Bytes), true}}
	}
	return nil
}

// partial is a file that grows to what is fetched, with the sum of what it holds.
type partial struct {
	path string
	file *os.File
	done int64
	hash hash.Hash
}

var errTooLong = errors.New("more bytes than there should be")

// writeError is one about the partial file and not about the network.
type writeError struct{ err error }

func (w writeError) Error() string { return w.err.Error() }
func (w writeError) Unwrap() error { return w.err }

// openPartial opens what an earlier download left, or a new file, for this process
// alone.
func openPartial(path string, limit int64) (*partial, error) {
	// A link could lead to a file that is not ours to empty.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o666)
	if err != nil && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.EISDIR) {
		return nil, fmt.Errorf("cannot write the download: %w", err)
	}
	notFile := err != nil
	if err == nil {
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if notFile = !info.Mode().IsRegular(); notFile {
			f.Close()
		}
	}
	if notFile {
		return nil, fmt.Errorf("%s, where the download would be kept, is not a regular file; remove it, or choose another folder with --dir", path)
	}
	p := &partial{path: path, file: f, hash: sha256.New()}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && !isAt(f, path) {
		err = unix.EWOULDBLOCK // another one has finished it meanwhile
	}
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by another kvbench; wait until it has ended", path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if p.done, err = io.Copy(p.hash, f); err != nil {
		f.Close()
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if p.done > limit {
		if err := p.truncate(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return p, nil
}

func isAt(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Lstat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// copy appends what r has. It stops where there are more than limit bytes.
func (p *partial) copy(r io.Reader, limit int64, progress func(done, total int64)) error {
	buf := make([]byte, 128<<10)
	for {
		n, err := r.Read(buf)
		if p.done+int64(n) > limit {
			return errTooLong
		}
		if n > 0 {
			if _, err := p.file.Write(buf[:n]); err != nil {
				return writeError{fmt.Errorf("write %s: %w", p.path, err)}
			}
			p.hash.Write(buf[:n])
			p.done += int64(n)
			progress(p.done, limit)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// truncate forgets all.
func (p *partial) truncate() error {
	p.done = 0
	p.hash.Reset()
	if err := p.file.Truncate(0); err != nil {
		return writeError{fmt.Errorf("write %s: %w", p.path, err)}
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return writeError{fmt.Errorf("write %s: %w", p.path, err)}
	}
	return nil
}

func (p *partial) remove() error { return os.Remove(p.path) }

// close lets go of the file, and removes it if nothing has arrived.
func (p *partial) close() {
	if p.done == 0 {
		_ = p.remove() // an empty file is of no use, and no harm
	}
	_ = p.file.Close() // what matters was synced before
}
