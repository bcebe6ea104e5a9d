package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvbench/kvbench/internal/settings"
)

// Runner runs kvbench with arguments and waits for its end.
type Runner interface {
	Run(ctx context.Context, args []string) (Outcome, error)
}

// Outcome is how a child ended. The error of Run is about a child that could not
// be started.
type Outcome struct {
	Exit   int    // -1: ended by a signal that was not ours
	Stderr string // the end of it
	// TimedOut says that it was ended because it took too long.
	TimedOut bool
}

// Process runs kvbench as a child process. Nothing is drawn and nothing runs in
// this process meanwhile.
type Process struct {
	Program string // path
	Name    string // its argv[0]
	// Timeout ends a child that takes longer; 0: none.
	Timeout time.Duration
}

// patience is how long a child may take to end after it was asked to.
const patience = 15 * time.Second

// Run implements Runner. When ctx ends, the child gets SIGINT and time to end.
func (p *Process) Run(ctx context.Context, args []string) (Outcome, error) {
	if p.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.Timeout, errTimedOut)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, p.Program, args...)
	cmd.Args[0] = p.Name
	// Everything that the child is to do is in its arguments.
	cmd.Env = settings.Without(os.Environ())
	stderr := tail{limit: 8 << 10}
	cmd.Stderr = &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGINT) }
	cmd.WaitDelay = patience
	// A group of its own, so that a Ctrl-C on the terminal reaches this process
	// alone, which then ends the child once and in order. The child also ends
	// with this process, however that ends; the kernel watches the thread.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return Outcome{}, fmt.Errorf("start %s: %w", p.Program, err)
	}
	err := cmd.Wait()
	out := Outcome{Exit: cmd.ProcessState.ExitCode(), Stderr: stderr.kept.String()}
	out.TimedOut = ctx.Err() != nil && errors.Is(context.Cause(ctx), errTimedOut)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return out, fmt.Errorf("wait for %s: %w", p.Program, err)
	}
	return out, nil
}

var errTimedOut = errors.New("took too long")

// tail keeps the end of what is written. The buffer is not embedded: its ReadFrom
// would take everything.
type tail struct {
	kept  bytes.Buffer
	limit int
}

func (t *tail) Write(b []byte) (int, error) {
	t.kept.Write(b)
	if over := t.kept.Len() - t.limit; over > 0 {
		t.kept.Next(over)
	}
	return len(b), nil
}

// lastLine is what a failed child says of its failure.
func (o *Outcome) lastLine() string {
	lines := strings.Split(strings.TrimSpace(o.Stderr), "\n")
	text := strings.TrimPrefix(lines[len(lines)-1], "kvbench: ")
	if text == "" {
		text = "it said nothing"
	}
	return text
}
