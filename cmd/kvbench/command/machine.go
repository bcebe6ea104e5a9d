package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/machinelock"
)

// machineFlags are those of the commands that measure, of which one at a time has
// the machine.
type machineFlags struct {
	mode, path string
	lock       *machinelock.Lock
}

func (f *machineFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.mode, "machine-lock", string(machinelock.Wait), "while another kvbench measures on this machine: "+strings.Join(machinelock.Modes(), ", ")+" (measure all the same)")
	fl.StringVar(&f.path, "machine-lock-file", machinelock.DefaultPath, "file that all who measure on this machine lock")
	_ = cmd.RegisterFlagCompletionFunc("machine-lock", fixed(machinelock.Modes()...))
}

// take has the machine until release, for a command that works in folder; "": none.
// Where there is no lock to be had, missing says so, unless the user named its file.
func (f *machineFlags) take(a *app, cmd *cobra.Command, folder string) error {
	if f.lock != nil {
		return nil
	}
	mode, err := machinelock.ParseMode(f.mode)
	if err != nil {
		return fmt.Errorf("--machine-lock is %w", err)
	}
	if folder != "" {
		if folder, err = filepath.Abs(folder); err != nil {
			return err
		}
	}
	f.lock, err = machinelock.Acquire(cmd.Context(), f.path, mode, machinelock.Holder{Command: cmd.CommandPath(), Folder: folder}, func(busy *machinelock.BusyError) {
		a.tell("kvbench: waiting: ", fmt.Sprintf("%v; Ctrl-C to leave, --machine-lock off to measure all the same", busy))
	})
	var busy *machinelock.BusyError
	if errors.As(err, &busy) {
		return &codeError{exitUnmeasurable, fmt.Errorf("%w; let it end, or measure all the same by --machine-lock off", busy)}
	}
	if err == nil && f.lock.Missing() != "" && mode != machinelock.Off && cmd.Flags().Changed("machine-lock-file") {
		return fmt.Errorf("--machine-lock-file: %s", f.lock.Missing())
	}
	return err
}

// missing says why the machine is not this command's alone; "" if it is.
func (f *machineFlags) missing() string {
	if f.lock == nil {
		return ""
	}
	return f.lock.Missing()
}

func (f *machineFlags) release() {
	if f.lock != nil {
		_ = f.lock.Release() // the end of the process does it otherwise
	}
}
