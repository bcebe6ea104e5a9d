package machinelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be another process that holds a lock until its
// standard input ends, or that counts with it.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "hold":
			os.Exit(hold(os.Args[2]))
		case "count":
			os.Exit(count(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

func hold(path string) int {
	l, err := Acquire(context.Background(), path, Refuse, Holder{Command: "kvbench rounds", Folder: "/some/exp"}, nil)
	if err != nil || l.Missing() != "" {
		fmt.Println(err, l)
		return 2
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// count adds 1 to the number in a file many times, reading it before each.
func count(path string) int {
	for range 20 {
		l, err := Acquire(context.Background(), path, Wait, Holder{Command: "count"}, nil)
		if err != nil || l.Missing() != "" {
			return 2
		}
		n := 0
		b, _ := os.ReadFile(path + ".number")
		_, _ = fmt.Sscan(string(b), &n)
		if os.WriteFile(path+".number", []byte(fmt.Sprint(n+1)), 0o666) != nil || l.Release() != nil {
			return 2
		}
	}
	return 0
}

// other starts a process that holds the lock.
func other(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "hold", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var line string
	if _, err := fmt.Fscanln(out, &line); err != nil || line != "held" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd
}

func take(t *testing.T, path string) (*Lock, error) {
	t.Helper()
	l, err := Acquire(context.Background(), path, Refuse, Holder{Command: "kvbench sweep"}, nil)
	if err == nil && l.Missing() != "" {
		t.Fatalf("no lock: %s", l.Missing())
	}
	return l, err
}

// TestOneAtATime: the second is refused and told of the first, and gets the lock
// when the first was killed, without any cleaning up.
func TestOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := other(t, path)
	_, err := take(t, path)
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Holder.PID != first.Process.Pid {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"kvbench rounds", fmt.Sprintf("process %d", first.Process.Pid), "folder /some/exp", path} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	l, err := take(t, path)
	if err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	if _, err := take(t, path); !errors.As(err, &busy) || busy.Holder.PID != os.Getpid() {
		t.Errorf("twice in one process: %v", err)
	}
	for range 2 { // the second does nothing
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
	if l, err = take(t, path); err != nil {
		t.Errorf("after it was released: %v", err)
	}
	_ = l.Release()
}

func TestWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := take(t, path)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	var released atomic.Bool
	l, err := Acquire(context.Background(), path, Wait, Holder{}, func(b *BusyError) {
		if told++; told > 1 {
			return
		}
		time.AfterFunc(2*pollEvery, func() {
			released.Store(true)
			_ = first.Release()
		})
	})
	if err != nil || l.Missing() != "" || told != 1 || !released.Load() {
		t.Fatalf("%v, told %d times", err, told)
	}
	why := errors.New("a signal")
	ctx, cancel := context.WithCancelCause(context.Background())
	_, err = Acquire(ctx, path, Wait, Holder{}, func(*BusyError) { cancel(why) })
	if !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	_ = l.Release()
	// What the other leaves in one's own folder is not what one waited for.
	other(t, path)
	var busy *BusyError
	if _, err := Acquire(context.Background(), path, Wait, Holder{Folder: "/some/exp"}, nil); !errors.As(err, &busy) {
		t.Errorf("the same folder: %v", err)
	}
}

// TestMany: processes that count with the lock lose nothing.
func TestMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := exec.Command(os.Args[0], "count", path).Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b, err := os.ReadFile(path + ".number"); err != nil || string(b) != "60" {
		t.Errorf("%s, %v", b, err)
	}
}

// TestRemoved: a file that somebody removed is not the one that others lock.
func TestRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l, err := take(t, path)
	if err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if _, err := take(t, path); !errors.As(err, &busy) {
		t.Errorf("%v", err)
	}
	_ = l.Release()
}

// TestNone: where no lock is to be had the measurement goes on and says why.
func TestNone(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("precious"), 0o666); err != nil {
		t.Fatal(err)
	}
	link, hard, fifo, folder := filepath.Join(dir, "link"), filepath.Join(dir, "hard"), filepath.Join(dir, "fifo"), filepath.Join(dir, "folder")
	if err := errors.Join(os.Symlink(target, link), os.Link(target, hard), unix.Mkfifo(fifo, 0o666), os.Mkdir(folder, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing", "lock"), link, hard, fifo, folder, "/proc/self/none", target + "/below"} {
		l, err := Acquire(context.Background(), path, Refuse, Holder{Command: "x"}, nil)
		if err != nil || l.Missing() == "" || l.Release() != nil {
			t.Errorf("%s: %v, %v", path, l, err)
		}
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "precious" {
		t.Errorf("a link led to %q, %v", b, err)
	}
	l, err := Acquire(context.Background(), filepath.Join(dir, "lock"), Off, Holder{}, nil)
	if err != nil || l.Missing() == "" {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); err == nil {
		t.Error("no lock was asked for, and a file was made")
	}
}

// TestReadOnly: a file that may only be read, as another user's may be, locks.
func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	l, err := take(t, path)
	if err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if _, err := take(t, path); !errors.As(err, &busy) {
		t.Errorf("%v", err)
	}
	_ = l.Release()
}

// FuzzHolder: whatever the file holds, a message is one line without control
// characters.
func FuzzHolder(f *testing.F) {
	for _, s := range []string{"", "{}", `{"pid":1,"command":"a\u001b[2Jb","folder":"/x\ny","since":"\u009b"}`, `{"pid":-1}`, "\x00\xff", "[1]"} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "note")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		text := holder(file).String()
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) || text == "" {
			t.Errorf("%q", text)
		}
	})
}
