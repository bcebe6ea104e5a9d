package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var content = func() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 300_000)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}()

func file(url string) File {
	sum := sha256.Sum256(content)
	return File{Name: "trace.jsonl", URL: url + "/owner/repo/trace.jsonl", Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

// server counts the requests to a handler and keeps their ranges.
type server struct {
	*httptest.Server
	ranges []string
}

func serve(t *testing.T, h http.HandlerFunc) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ranges = append(s.ranges, r.Header.Get("Range"))
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func good(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "trace.jsonl", time.Time{}, bytes.NewReader(content))
}

// cut sends so many bytes and breaks the connection.
func cut(w http.ResponseWriter, r *http.Request, n int) {
	from := 0
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		w.Header().Set("Content-Length", strconv.Itoa(len(content)-from))
		w.WriteHeader(http.StatusPartialContent)
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	}
	_, _ = w.Write(content[from:min(from+n, len(content))])
	if from+n < len(content) {
		panic(http.ErrAbortHandler)
	}
}

func options(t *testing.T) Options {
	return Options{Dir: t.TempDir(), Pause: time.Millisecond}
}

// whole fails unless the file is there and nothing else is.
func whole(t *testing.T, dir string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 1 || names[0].Name() != "trace.jsonl" {
		t.Fatalf("the folder holds %v", names)
	}
	got, err := os.ReadFile(filepath.Join(dir, "trace.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, content) {
		t.Fatal("the file is another one")
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Fatalf("the folder holds %v (%v), want nothing", names, err)
	}
}

func TestFetch(t *testing.T) {
	s := serve(t, good)
	opts := options(t)
	last := int64(0)
	opts.Progress = func(done, total int64) {
		if done <= last || total != int64(len(content)) {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	}
	res, err := Fetch(t.Context(), file(s.URL), opts)
	if err != nil {
		t.Fatal(err)
	}
	if res.Existed || res.Resumed != 0 || res.Path != filepath.Join(opts.Dir, "trace.jsonl") || last != int64(len(content)) {
		t.Errorf("%+v, progress to %d", res, last)
	}
	whole(t, opts.Dir)
	// The second time nothing is downloaded.
	res, err = Fetch(t.Context(), file(s.URL), opts)
	if err != nil || !res.Existed || len(s.ranges) != 1 {
		t.Errorf("%+v, %v after %d requests", res, err, len(s.ranges))
	}
}

// Each connection ends after a part of the file; each next one goes on there.
func TestCutConnections(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { cut(w, r, 70_000) })
	opts := options(t)
	opts.Tries = 2
	if _, err := Fetch(t.Context(), file(s.URL), opts); err != nil {
		t.Fatal(err)
	}
	whole(t, opts.Dir)
	if len(s.ranges) < 5 || s.ranges[0] != "" || !strings.HasPrefix(s.ranges[1], "bytes=") || s.ranges[1] == s.ranges[2] {
		t.Errorf("ranges %q", s.ranges)
	}
}

// A download that is given up leaves what it has, and the next one needs the rest.
func TestResume(t *testing.T) {
	broken := true
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !broken {
			good(w, r)
		} else if r.Header.Get("Range") == "" {
			cut(w, r, 100_000)
		} else {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	opts := options(t)
	_, err := Fetch(t.Context(), file(s.URL), opts)
	if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "goes on from there") {
		t.Fatalf("error %v", err)
	}
	info, err := os.Stat(filepath.Join(opts.Dir, "trace.jsonl.part"))
	if err != nil || info.Size() == 0 {
		t.Fatalf("nothing was kept: %v", err)
	}
	broken = false
	res, err := Fetch(t.Context(), file(s.URL), opts)
	if err != nil {
		t.Fatal(err)
	}
	if last := s.ranges[len(s.ranges)-1]; res.Resumed != info.Size() || last != fmt.Sprintf("bytes=%d-", info.Size()) {
		t.Errorf("resumed at %d with the range %q, want %d", res.Resumed, last, info.Size())
	}
	whole(t, opts.Dir)
}

func TestServerWithoutRanges(t *testing.T) {
	tries := 0
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		if tries++; tries < 3 {
			cut(w, r, 50_000*tries)
		}
		good(w, r)
	})
	opts := options(t)
	if _, err := Fetch(t.Context(), file(s.URL), opts); err != nil {
		t.Fatal(err)
	}
	whole(t, opts.Dir)
}

// A server that sends another range than it was asked for.
func TestWrongRange(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") == "" {
			good(w, r)
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 5-%d/%d", len(content)-1, len(content)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(content[5:])
	})
	opts := options(t)
	leave(t, opts.Dir, content[:1000])
	if _, err := Fetch(t.Context(), file(s.URL), opts); err != nil {
		t.Fatal(err)
	}
	whole(t, opts.Dir)
}

// leave writes what an earlier download would have left.
func leave(t *testing.T, dir string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "trace.jsonl.part"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// What an earlier download left may be of another file, too long, or all.
func TestWhatWasLeft(t *testing.T) {
	for name, left := range map[string][]byte{
		"wrong": bytes.Repeat([]byte("x"), 1000), "too long": bytes.Repeat([]byte("x"), len(content)+1),
		"wrong and whole": bytes.Repeat([]byte("x"), len(content)), "all": content,
	} {
		s := serve(t, good)
		opts := options(t)
		leave(t, opts.Dir, left)
		if _, err := Fetch(t.Context(), file(s.URL), opts); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		whole(t, opts.Dir)
		if name == "all" && len(s.ranges) != 0 {
			t.Errorf("%d requests for what was there", len(s.ranges))
		}
	}
}

func TestRefused(t *testing.T) {
	wrong := bytes.Clone(content)
	wrong[12345]++
	for _, c := range []struct {
		name, want string
		h          http.HandlerFunc
	}{
		{"other bytes", "sha256", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(wrong) }},
		{"more bytes", "size", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(append(wrong, 1)) }},
		{"fewer bytes", "size", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(content[:1000]) }},
		{"more bytes, length not said", "size", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = w.Write(append(wrong, 1))
		}},
		{"fewer bytes, length not said", "size", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = w.Write(content[:1000])
		}},
		{"another size in the range", "size", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-9/10")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[:10])
		}},
	} {
		s := serve(t, c.h)
		opts := options(t)
		_, err := Fetch(t.Context(), file(s.URL), opts)
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) || mismatch.What != c.want || !strings.Contains(err.Error(), s.URL) {
			t.Errorf("%s: %v, want a mismatch of the %s", c.name, err, c.want)
		}
		if len(s.ranges) != 1 {
			t.Errorf("%s: %d requests", c.name, len(s.ranges))
		}
		empty(t, opts.Dir)
	}
}

// A page in the place of the file does not cost what is there of it.
func TestPageInTheWay(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "<html>log in first</html>") })
	opts := options(t)
	leave(t, opts.Dir, content[:1000])
	if _, err := Fetch(t.Context(), file(s.URL), opts); err == nil {
		t.Fatal("the page is taken for the file")
	}
	if left, err := os.ReadFile(filepath.Join(opts.Dir, "trace.jsonl.part")); err != nil || !bytes.Equal(left, content[:1000]) {
		t.Errorf("%d bytes are left (%v)", len(left), err)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status   int
		requests int
	}{{404, 1}, {410, 1}, {403, 1}, {500, 3}, {429, 3}} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(c.status) })
		opts := options(t)
		opts.Tries = 3
		_, err := Fetch(t.Context(), file(s.URL), opts)
		if err == nil || !strings.Contains(err.Error(), s.URL) || len(s.ranges) != c.requests {
			t.Errorf("%d: %v after %d requests, want %d", c.status, err, len(s.ranges), c.requests)
		}
		empty(t, opts.Dir)
	}
	s := serve(t, good)
	s.Close()
	opts := options(t)
	opts.Tries = 2
	if _, err := Fetch(t.Context(), file(s.URL), opts); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("without a server: %v", err)
	}
	if _, err := Fetch(t.Context(), file("http://localhost"), Options{Dir: filepath.Join(opts.Dir, "none")}); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("without a folder: %v", err)
	}
}

func TestMirror(t *testing.T) {
	for name, path := range map[string]string{"a folder": "/m/trace.jsonl", "a host": "/m/owner/repo/trace.jsonl"} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				http.NotFound(w, r)
				return
			}
			good(w, r)
		})
		opts := options(t)
		opts.BaseURL = s.URL + "/m/"
		res, err := Fetch(t.Context(), file("https://original.invalid"), opts)
		if err != nil || res.URL != s.URL+path {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		whole(t, opts.Dir)
	}
	s := serve(t, http.NotFound)
	opts := options(t)
	opts.BaseURL = s.URL
	if _, err := Fetch(t.Context(), file("https://original.invalid"), opts); err == nil ||
		!strings.Contains(err.Error(), s.URL+"/trace.jsonl") || !strings.Contains(err.Error(), s.URL+"/owner/repo/trace.jsonl") {
		t.Errorf("an empty mirror: %v", err)
	}
	for _, bad := range []string{"mirror", "ftp://mirror/x", "http://", "://"} {
		opts.BaseURL = bad
		if _, err := Fetch(t.Context(), file("https://original.invalid"), opts); err == nil || !strings.Contains(err.Error(), "--base-url") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestRedirect(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/elsewhere" {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return
		}
		cut(w, r, 200_000)
	})
	opts := options(t)
	if _, err := Fetch(t.Context(), file(s.URL), opts); err != nil {
		t.Fatal(err)
	}
	whole(t, opts.Dir)
}

func TestExistingFile(t *testing.T) {
	s := serve(t, good)
	for _, other := range [][]byte{[]byte("mine"), bytes.Repeat([]byte("x"), len(content))} {
		opts := options(t)
		path := filepath.Join(opts.Dir, "trace.jsonl")
		if err := os.WriteFile(path, other, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Fetch(t.Context(), file(s.URL), opts); err == nil || !strings.Contains(err.Error(), "--overwrite") {
			t.Errorf("error %v", err)
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, other) {
			t.Error("the file was changed")
		}
		opts.Overwrite = true
		if _, err := Fetch(t.Context(), file(s.URL), opts); err != nil {
			t.Fatal(err)
		}
		whole(t, opts.Dir)
	}
}

func TestInterrupted(t *testing.T) {
	opts := options(t)
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content[:100_000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	opts.Progress = func(done, _ int64) {
		if done == 100_000 {
			cancel(ended)
		}
	}
	if _, err := Fetch(ctx, file(s.URL), opts); !errors.Is(err, ended) {
		t.Fatalf("error %v", err)
	}
	if info, err := os.Stat(filepath.Join(opts.Dir, "trace.jsonl.part")); err != nil || info.Size() != 100_000 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestStalled(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			good(w, r)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content[:50_000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	opts := options(t)
	opts.Stall = 100 * time.Millisecond
	if _, err := Fetch(t.Context(), file(s.URL), opts); err != nil {
		t.Fatal(err)
	}
	whole(t, opts.Dir)
}

func TestTwoAtOnce(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		good(w, r)
	})
	opts := options(t)
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		p, err := openPartial(filepath.Join(opts.Dir, "trace.jsonl.part"), int64(len(content)))
		if err == nil {
			close(started)
			<-release
			p.close()
		}
		done <- err
	}()
	<-started
	_, err := Fetch(t.Context(), file(s.URL), opts)
	if err == nil || !strings.Contains(err.Error(), "in use by another kvbench") {
		t.Errorf("error %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := Fetch(t.Context(), file(s.URL), opts); err != nil {
		t.Fatal(err)
	}
	whole(t, opts.Dir)
}

// Answers that promise bytes and have none end, as all tries without progress do.
func TestAnswersWithoutBytes(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 1000-%d/%d", len(content)-1, len(content)))
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusPartialContent)
	})
	opts := options(t)
	opts.Tries = 3
	leave(t, opts.Dir, content[:1000])
	if _, err := Fetch(t.Context(), file(s.URL), opts); err == nil || !strings.Contains(err.Error(), "none of the 299000 bytes") || len(s.ranges) != 3 {
		t.Errorf("error %v after %d requests", err, len(s.ranges))
	}
}

// What is in the place of the partial file and is no file is neither waited for nor
// written through.
func TestPartialIsNoFile(t *testing.T) {
	s := serve(t, good)
	for name, put := range map[string]func(path string) error{
		"pipe":   func(path string) error { return unix.Mkfifo(path, 0o644) },
		"folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"link": func(path string) error {
			other := filepath.Join(filepath.Dir(path), "other")
			return errors.Join(os.WriteFile(other, []byte("mine"), 0o644), os.Symlink(other, path))
		},
		"link to nothing": func(path string) error { return os.Symlink(filepath.Join(filepath.Dir(path), "other"), path) },
	} {
		opts := options(t)
		if err := put(filepath.Join(opts.Dir, "trace.jsonl.part")); err != nil {
			t.Fatal(err)
		}
		if _, err := Fetch(t.Context(), file(s.URL), opts); err == nil || !strings.Contains(err.Error(), "not a regular file; remove it") {
			t.Errorf("%s: error %v", name, err)
		}
		b, err := os.ReadFile(filepath.Join(opts.Dir, "other"))
		if name == "link" && string(b) != "mine" || name == "link to nothing" && err == nil {
			t.Errorf("%s: the other file holds %q (%v)", name, b, err)
		}
	}
	if len(s.ranges) != 0 {
		t.Errorf("%d requests", len(s.ranges))
	}
}
