package soak

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kvbench/kvbench/indexer/flat"
)

func TestReproduce(t *testing.T) {
	o := small(breaking(dropsRemovals))
	res, err := Run(context.Background(), o)
	if err != nil || res.Problem == nil {
		t.Fatal(res, err)
	}
	r, err := Reproduce(o, res.Problem, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() > 20 {
		t.Errorf("%d operations are left", r.Len())
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := ReadRepro("x", &b)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Replay(o.Index); err == nil || err.Error() != r.Problem {
		t.Errorf("read again, the problem is %v, want %s", err, r.Problem)
	}
	if err := again.Replay(flat.Factory()); err != nil {
		t.Errorf("an index without the fault: %v", err)
	}
}

func FuzzReadRepro(f *testing.F) {
	head := `{"schema":"kvbench.soak-repro/v1"}` + "\n"
	f.Add(head + `{"do":"register","rank":1}` + "\n" + `{"do":"event","rank":1,"kind":1,"sequences":[0,18446744073709551615],"locals":[1,2]}`)
	f.Add(head + `{"do":"x"}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, in string) {
		r, err := ReadRepro("name", strings.NewReader(in))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "name:") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		if err := r.Replay(flat.Factory()); err != nil {
			t.Error(err)
		}
	})
}
