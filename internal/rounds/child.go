package rounds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a child to start.
type process struct {
	path string
	argv []string
	env  []string
	dir  string
	lock *os.File // inherited, so that the folder stays locked while the child lives
	time time.Duration
	cpus pinning
	// adopt says that this process inherits what the child leaves behind, and has
	// no other children.
	adopt bool
}

// outcome is how a child ended.
type outcome struct {
	start       time.Time
	wall        time.Duration
	state       *os.ProcessState
	timedOut    bool
	interrupted bool // ctx ended while it ran
	leftBehind  int  // processes that outlived it outside of its process group, and were ended
	output      string
}

// killDelay is the time between asking a child to end and ending it.
const killDelay = 5 * time.Second

// run starts the child and waits for it, and ends all that it started and left in its
// process group, or anywhere if p adopts. The calling thread sleeps meanwhile. An error means that the child could
// not be started or waited for; how it ended is in the outcome.
func (p *process) run(ctx context.Context) (o outcome, err error) {
	// Two things belong to the thread and not to the process: the CPUs that a
	// child inherits, and the signal that the child gets when its parent is gone.
	// Without it a killed kvbench would leave a trial behind that disturbs others.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	out := &tail{}
	cmd := &exec.Cmd{
		Path: p.path, Args: p.argv, Env: p.env, Dir: p.dir,
		Stdout: out, Stderr: out,
		ExtraFiles: []*os.File{p.lock},
		// A process that left the group may hold the pipe.
		WaitDelay:   time.Second,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	restore, err := p.cpus.forChild()
	if err != nil {
		return o, err
	}
	o.start = time.Now()
	err = cmd.Start()
	if restoreErr := restore(); err == nil && restoreErr != nil {
		// The child runs, and the parent may be in its way: not worth losing it.
		out.note("kvbench: " + restoreErr.Error() + "\n")
	}
	if err != nil {
		return o, err
	}
	group := -cmd.Process.Pid
	var mu sync.Mutex
	ended := false
	signal := func(s syscall.Signal) {
		mu.Lock()
		defer mu.Unlock()
		if !ended { // else the number may be another's by now
			_ = unix.Kill(group, s)
		}
	}
	stop := func(why *bool) {
		mu.Lock()
		if ended { // in time
			mu.Unlock()
			return
		}
		*why = true
		mu.Unlock()
		signal(unix.SIGTERM)
		time.AfterFunc(killDelay, func() { signal(unix.SIGKILL) })
	}
	timer := time.AfterFunc(p.time, func() { stop(&o.timedOut) })
	defer timer.Stop()
	forget := context.AfterFunc(ctx, func() { stop(&o.interrupted) })
	defer forget()

	// Looked at without reaping, so that the group's number stays taken while
	// what is left of the group is ended.
	waitErr := waitUnreaped(cmd.Process.Pid)
	o.wall = time.Since(o.start)
	mu.Lock()
	_ = unix.Kill(group, unix.SIGKILL)
	ended = true
	mu.Unlock()
	if p.adopt && waitErr == nil {
		o.leftBehind, waitErr = endAdopted(cmd.Process.Pid)
	}
	err = cmd.Wait()
	o.state = cmd.ProcessState
	o.output = out.String()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	mu.Lock()
	defer mu.Unlock()
	return o, errors.Join(waitErr, err)
}

// waitUnreaped waits until a child has ended and leaves it to be reaped.
func waitUnreaped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// adopting makes this process the parent of what its children leave behind, until
// the function that it returns is called. It is no right of a process that something
// else needs it to be.
func adopting() (restore func(), err error) {
	set := func(on uintptr) error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0) }
	if err := set(1); err != nil {
		return nil, fmt.Errorf("adopt what trials leave behind: %w", err)
	}
	return func() { _ = set(0) }, nil
}

// patience is how long it may take until a process is gone that was ended.
const patience = 5 * time.Second

// endAdopted ends all children of this process but one that has ended, and theirs. It
// counts those outside of that one's process group. A process that stays all the same,
// as in a system call that hangs, is an error: it would disturb what comes.
func endAdopted(leader int) (n int, err error) {
	seen := map[int]bool{}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		list, err := children()
		if err != nil {
			return n, err
		}
		list = slices.DeleteFunc(list, func(c relative) bool { return c.pid == leader })
		if len(list) == 0 {
			return n, nil
		}
		if time.Since(began) > patience {
			return n, fmt.Errorf("process %d, which a trial left behind, cannot be ended", list[0].pid)
		}
		for _, c := range list {
			if !seen[c.pid] && !c.dead && c.group != leader {
				n++
			}
			seen[c.pid] = true
			// It is not reaped, so that the number is not another's.
			_ = unix.Kill(c.pid, unix.SIGKILL)
			_, _ = unix.Wait4(c.pid, nil, unix.WNOHANG, nil)
		}
	}
}

// relative is a child of this process, or one that it adopted.
type relative struct {
	pid, group int
	dead       bool // and not reaped
}

// children lists those of this process.
func children() ([]relative, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	me := os.Getpid()
	var out []relative
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue // it is gone
		}
		c, parent := relative{pid: pid}, 0
		var state string
		// The name before the last parenthesis may hold anything.
		if _, err := fmt.Sscan(string(b[bytes.LastIndexByte(b, ')')+1:]), &state, &parent, &c.group); err == nil && parent == me {
			c.dead = state == "Z"
			out = append(out, c)
		}
	}
	return out, nil
}

// usage returns what the system says a child used.
func usage(s *os.ProcessState) Usage {
	u := Usage{UserNS: int64(s.UserTime()), SystemNS: int64(s.SystemTime())}
	if ru, ok := s.SysUsage().(*syscall.Rusage); ok {
		u.MaxRSSBytes = ru.Maxrss * 1024
		u.MinorFaults, u.MajorFaults = ru.Minflt, ru.Majflt
		u.VoluntaryContextSwitches, u.InvoluntaryContextSwitches = ru.Nvcsw, ru.Nivcsw
	}
	return u
}

// tailBytes is how much of a child's output is kept.
const tailBytes = 4096

// tail keeps the end of what is written to it, whatever that is.
type tail struct {
	mu   sync.Mutex
	b    []byte
	lost int64
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-tailBytes):]...)
	t.lost += int64(max(0, len(p)-tailBytes))
	if over := len(t.b) - tailBytes; over > 0 {
		t.lost += int64(over)
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) note(s string) { _, _ = t.Write([]byte(s)) }

// String returns the end, as valid text, and says how much came before it.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(string(t.b), "\x00", "."), "."))
	if t.lost > 0 {
		text = fmt.Sprintf("[%d bytes before this] %s", t.lost, text)
	}
	return text
}

// frame makes the stack that the system builds for a program equally large for
// all: argument and variable strings, their pointers and the path.
type frame struct {
	path     int // bytes of the path
	args     int // bytes of the arguments with it in front
	pointers int // arguments
}

// frameOf measures a command line, its path being the first argument.
func frameOf(argv []string) frame {
	f := frame{path: len(argv[0]), pointers: len(argv)}
	for _, a := range argv {
		f.args += len(a) + 1
	}
	return f
}

// longestPath bounds a padded path: the system takes 4095 bytes.
const longestPath = 4000

// pad returns path, arguments and padding variables for a command line such that
// its frame becomes that of want plus extra bytes. A path with more slashes in
// front is the same path.
func pad(argv []string, want frame, extra int) (path string, args, env []string, err error) {
	f := frameOf(argv)
	path = strings.Repeat("/", want.path-f.path) + argv[0]
	first := strings.Repeat("/", want.args-f.args) + argv[0]
	if len(path) > longestPath || len(first) > longestPath {
		return "", nil, nil, fmt.Errorf("the command lines of the variants differ by %d bytes, which is too much to make them equally long; shorten the longest", want.args-f.args)
	}
	args = append([]string{first}, argv[1:]...)
	// One variable for each argument that others have more, and one for the bytes.
	for i := f.pointers; i < want.pointers; i++ {
		env = append(env, fmt.Sprintf("%s_%04d=", padName, i))
	}
	used := 0
	for _, v := range env {
		used += len(v) + 1
	}
	last := padName + "="
	const each = len(padName) + len("_0000=") + 1
	room := max(0, (want.pointers-1)*each+extra-used)
	return path, args, append(env, last+strings.Repeat("x", room)), nil
}
