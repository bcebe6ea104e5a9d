package host

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onOwnThread runs f on an OS thread that ends with it, so that a changed mask
// does not leak into other tests.
func onOwnThread(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends
		f()
	}()
	<-done
}

func TestPinThreadForReal(t *testing.T) {
	allowed, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	for _, cpu := range allowed {
		onOwnThread(t, func() {
			if err := PinThread(cpu); err != nil {
				t.Error(err)
				return
			}
			if got, err := ThreadCPUs(); err != nil || !slices.Equal(got, []int{cpu}) {
				t.Errorf("pinned to %d, the mask is %v, %v", cpu, got, err)
			}
			if got, err := CurrentCPU(); err != nil || got != cpu {
				t.Errorf("pinned to %d, runs on %d, %v", cpu, got, err)
			}
			// Another thread sees the same.
			tid, seen := unix.Gettid(), make(chan []int)
			go func() {
				got, err := TaskCPUs(tid)
				if err != nil {
					t.Error(err)
				}
				seen <- got
			}()
			if got := <-seen; !slices.Equal(got, []int{cpu}) {
				t.Errorf("pinned to %d, the mask seen from elsewhere is %v", cpu, got)
			}
			// The pin of one thread is not a limit of the process.
			if got, err := AllowedCPUs(); err != nil || !slices.Equal(got, allowed) {
				t.Errorf("with a thread on CPU %d, allowed are %v, %v; want %v", cpu, got, err, allowed)
			}
		})
	}
	onOwnThread(t, func() {
		if got, err := ThreadCPUs(); err != nil || !slices.Equal(got, allowed) {
			t.Errorf("a new thread may use %v, %v; want %v", got, err, allowed)
		}
	})
}

func TestAllowedCPUsAreOnline(t *testing.T) {
	online, err := OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := AllowedCPUs()
	if err != nil || len(allowed) == 0 {
		t.Fatalf("allowed %v, %v", allowed, err)
	}
	for _, cpu := range allowed {
		if !slices.Contains(online, cpu) {
			t.Errorf("CPU %d is allowed but not online (%v)", cpu, online)
		}
	}
}

func TestPinThreadToMissingCPU(t *testing.T) {
	online, err := OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	missing := online[len(online)-1] + 1
	onOwnThread(t, func() {
		before, err := ThreadCPUs()
		if err != nil {
			t.Error(err)
			return
		}
		for cpu, want := range map[int]string{missing: "not online (online are " + FormatCPUs(online) + ")", 5000: "not online", maxCPU: "not online",
			maxCPU + 1: "go from 0 to 8191", -1: "go from 0 to 8191"} {
			if err := PinThread(cpu); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("CPU %d: %v, want an error with %q", cpu, err, want)
			}
		}
		if after, err := ThreadCPUs(); err != nil || !slices.Equal(before, after) {
			t.Errorf("after failed pins the mask is %v, %v; want %v", after, err, before)
		}
	})
}

func TestTaskCPUsOfNobody(t *testing.T) {
	if got, err := TaskCPUs(1 << 30); !errors.Is(err, unix.ESRCH) {
		t.Errorf("%v, %v; want %v", got, err, unix.ESRCH)
	}
}

func TestPinReasons(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		set       error
		mask      []int
		get       error
		online    []int
		onlineErr error
		want      string
	}{
		"pinned":        {mask: []int{3}},
		"not permitted": {set: unix.EPERM, want: "cannot pin to CPU 3: the system does not permit"},
		"sandbox":       {set: unix.ENOSYS, want: "no way to pin"},
		"offline":       {set: unix.EINVAL, online: []int{0, 1}, want: "CPU 3: it is not online (online are 0-1)"},
		"cpuset":        {set: unix.EINVAL, online: []int{0, 1, 2, 3}, want: "CPU 3: it is online but not in the set of CPUs"},
		"unclear":       {set: unix.EINVAL, onlineErr: broken, want: "not online or not in the set"},
		"other":         {set: broken, want: "the kernel refuses: broken"},
		"wider":         {mask: []int{0, 1, 2, 3}, want: "CPU 3: the mask reads back as 0-3"},
		"elsewhere":     {mask: []int{2}, want: "CPU 3: the mask reads back as 2"},
		"no reading":    {get: broken, want: "cannot confirm the pin to CPU 3: broken"},
	} {
		err := pin(3,
			func(s unix.CPUSetDynamic) error {
				if s.Count() != 1 || !s.IsSet(3) {
					t.Errorf("%s: asked for %v", name, s)
				}
				return tc.set
			},
			func() ([]int, error) { return tc.mask, tc.get },
			func() ([]int, error) { return tc.online, tc.onlineErr })
		switch {
		case tc.want == "" && err == nil:
		case tc.want == "" || err == nil || !strings.Contains(err.Error(), tc.want):
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		case tc.set != nil && !errors.Is(err, tc.set):
			t.Errorf("%s: %v does not wrap its cause", name, err)
		}
	}
}
