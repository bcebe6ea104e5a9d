package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kvbench": func() { os.Exit(kvbench.Main(os.Args, kvbench.Extensions{})) },
	})
}

// TestScripts runs kvbench as a user would: see testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			shared, err := sharedTrace()
			if err != nil {
				return err
			}
			env.Setenv("SHARED_TRACE", shared)
			// Scripts run side by side and are no measurements.
			env.Setenv("KVBENCH_MACHINE_LOCK_FILE", filepath.Join(env.WorkDir, ".tmp", "machine.lock"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "shared-trace":
				shared, err := sharedTrace()
				return shared != "", err
			case "tmpfs":
				return canMount(), nil
			}
			return false, fmt.Errorf("no condition is called %s", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":     exits,
			"replays":   replays,
			"sweeps":    sweeps,
			"rounds":    experiment("rounds", "--gap", "0s", "--quiet-limit", "0s", "--quick-host"),
			"resumes":   experiment("rounds", "--quick-host"),
			"analyse":   experiment("rounds", "analyse"),
			"interrupt": interrupt,
			"killed":    killed,
			"longline":  longLine,
			"smalldisk": smallDisk,
			"onecpu":    oneCPU,
			"fullout":   fullOutput,
			"fulldisk":  fullDisk,
			"once":      once,
			"wide":      wide,
			"serve":     serve,
		},
	})
}

// sharedTrace returns the path of the real trace beside the repository, "" if
// there is none.
func sharedTrace() (string, error) {
	path, err := filepath.Abs("../../../shared/traces/mooncake/conversation_trace.jsonl")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", nil
	}
	return path, nil
}

// exits runs kvbench and checks the exit code: exits CODE ARGS...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	err := ts.Exec("kvbench", args[1:]...)
	if got := fmt.Sprint(code(err)); got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

func code(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return -1
}

// replays runs kvbench replay and expects it to succeed: replays ARGS... A busy
// machine may make issuers late, which makes a trial invalid and is no fault of
// the program; then it runs again, and in the end lateness alone is accepted.
func replays(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: replays ARGS...")
	}
	for range 8 {
		err := ts.Exec("kvbench", append([]string{"replay"}, args...)...)
		if err == nil {
			return
		}
		// The record of a late trial is kept; the next one takes its place.
		if slices.Contains(args, "--out") && !slices.Contains(args, "--overwrite") {
			args = append(slices.Clone(args), "--overwrite")
		}
		stderr := ts.ReadFile("stderr")
		if code(err) != 3 || !strings.Contains(stderr, "issue_span") {
			ts.Fatalf("exit code %d", code(err))
		}
		ts.Logf("issued late")
	}
}

// sweeps runs kvbench sweep, in which a busy machine may make trials invalid:
// sweeps ARGS...
func sweeps(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: sweeps ARGS...")
	}
	if c := code(ts.Exec("kvbench", append([]string{"sweep"}, args...)...)); c != 0 && c != 3 {
		ts.Fatalf("exit code %d", c)
	}
}

// experiment runs kvbench with the arguments in front of those given. On a busy
// machine trials are invalid, which the exit code says and is no fault of the
// program.
func experiment(front ...string) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if c := code(ts.Exec("kvbench", append(front, args...)...)); neg || c != 0 && c != 3 {
			ts.Fatalf("exit code %d", c)
		}
	}
}

// interrupt runs kvbench and sends it SIGINT when its log says what is given:
// interrupt TEXT ARGS... The exit code must be 130.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupt TEXT ARGS...")
	}
	if c := signalled(ts, syscall.SIGINT, args); c != 130 {
		ts.Fatalf("exit code %d, want 130", c)
	}
}

// killed is interrupt with SIGKILL, as when power is lost: killed TEXT ARGS...
func killed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: killed TEXT ARGS...")
	}
	if c := signalled(ts, syscall.SIGKILL, args); c != -1 {
		ts.Fatalf("exit code %d of a process that was killed", c)
	}
}

// signalled runs kvbench, sends it a signal when its log says what is given, and
// returns its exit code.
func signalled(ts *testscript.TestScript, signal syscall.Signal, args []string) int {
	cmd := exec.Command("kvbench", append([]string{"--verbose"}, args[1:]...)...)
	path, err := exec.LookPath("kvbench")
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, "kvbench"); err != nil {
			if _, e := os.Stat(p); e == nil {
				path, err = p, nil
			}
		}
	}
	ts.Check(err)
	cmd.Path, cmd.Err = path, nil
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"))
	var out bytes.Buffer
	errs, err := cmd.StderrPipe()
	ts.Check(err)
	cmd.Stdout = &out
	ts.Check(cmd.Start())
	var log bytes.Buffer
	buf := make([]byte, 4096)
	sent := false
	for {
		n, err := errs.Read(buf)
		log.Write(buf[:n])
		if !sent && strings.Contains(log.String(), args[0]) {
			sent = true
			time.Sleep(200 * time.Millisecond)
			ts.Check(cmd.Process.Signal(signal))
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	ts.Logf("[stdout]\n%s[stderr]\n%s", out.String(), log.String())
	if !sent {
		ts.Fatalf("it ended with exit code %d and never said %q", code(err), args[0])
	}
	return code(err)
}

// longLine writes a trace whose second line has that many bytes: longline FILE N
func longLine(ts *testscript.TestScript, _ bool, args []string) {
	var n int
	_, err := fmt.Sscan(args[1], &n)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	_, err = f.WriteString(`{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}` + "\n" + `{"timestamp": 1, "hash_ids": [`)
	ts.Check(err)
	chunk := bytes.Repeat([]byte("7,"), 1<<19)
	for written := 0; written < n; written += len(chunk) {
		_, err = f.Write(chunk)
		ts.Check(err)
	}
}

func canMount() bool {
	dir, err := os.MkdirTemp("", "kvbench-mount")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k") != nil {
		return false
	}
	return unix.Unmount(dir, 0) == nil
}

// smallDisk mounts a file system of one page of data: smalldisk DIR
func smallDisk(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o777))
	ts.Check(unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"))
	ts.Defer(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// oneCPU runs kvbench where it may use one CPU only: onecpu ARGS...
func oneCPU(ts *testscript.TestScript, _ bool, args []string) {
	if c := code(ts.Exec("taskset", append([]string{"-c", "0", "kvbench"}, args...)...)); c != 0 && c != 3 {
		ts.Fatalf("exit code %d", c)
	}
}

// fullOutput runs kvbench with a standard output that takes nothing; the exit
// code must be 2, and the reason stands on standard error, once: fullout ARGS...
func fullOutput(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv("ARGS", strings.Join(args, " "))
	if c := code(ts.Exec("sh", "-c", "kvbench $ARGS > /dev/full")); c != 2 {
		ts.Fatalf("exit code %d, want 2", c)
	}
	if n := strings.Count(ts.ReadFile("stderr"), "no space left"); n != 1 {
		ts.Fatalf("the reason is given %d times", n)
	}
}

// fullDisk mounts a file system that is full: fulldisk DIR
func fullDisk(ts *testscript.TestScript, _ bool, args []string) {
	smallDisk(ts, false, args)
	ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), "all"), make([]byte, 4096), 0o666))
}

// once checks that standard error has a text once: once TEXT
func once(ts *testscript.TestScript, _ bool, args []string) {
	if n := strings.Count(ts.ReadFile("stderr"), args[0]); n != 1 {
		ts.Fatalf("%q is on standard error %d times", args[0], n)
	}
}

// wide checks that no line of a file is wider than that: wide FILE COLUMNS
func wide(ts *testscript.TestScript, _ bool, args []string) {
	var columns int
	_, err := fmt.Sscan(args[1], &columns)
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
			ts.Fatalf("%d columns: %s", n, line)
		}
	}
}

// serve starts a web server of the files in a folder, whose address is then in
// $SERVER: serve DIR. With -cut, it breaks each connection after 1 MB.
func serve(ts *testscript.TestScript, _ bool, args []string) {
	files := http.FileServer(http.Dir(ts.MkAbs(args[len(args)-1])))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if args[0] == "-cut" {
			w = &cutWriter{ResponseWriter: w, left: 1 << 20}
		}
		files.ServeHTTP(w, r)
	}))
	ts.Defer(server.Close)
	ts.Setenv("SERVER", server.URL)
}

type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}
