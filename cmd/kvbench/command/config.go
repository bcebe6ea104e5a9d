package command

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/settings"
)

// configure gives the flags of a command that were left out the values of the
// configuration file and the environment.
func (a *app) configure(cmd *cobra.Command, _ []string) error {
	command := commandPath(cmd)
	switch first, _, _ := strings.Cut(command, " "); first {
	case "", "help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd, "version", "man":
		return nil
	}
	if err := a.readSettings(cmd.Root()); err != nil {
		return err
	}
	if cmd.Name() == "print" && cmd.Parent().Name() == "config" {
		return nil // it prints what it would do
	}
	var err error
	if a.applied, err = a.settings.Apply(cmd.Flags(), command); err != nil {
		return err
	}
	return a.checkExclusive(cmd.Flags())
}

func (a *app) readSettings(root *cobra.Command) error {
	if a.config == "" {
		a.config = settings.File(os.Environ())
	}
	var err error
	a.settings, err = settings.Read(a.config, os.Environ(), root)
	return err
}

// commandPath returns the names of a command below the root.
func commandPath(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

// commandLine returns the arguments of this process with the settings that were
// applied among them, so that it means the same without the file and the
// environment.
func (a *app) commandLine() []string {
	var set []string
	for _, x := range a.applied {
		set = append(set, x.Arguments()...)
	}
	argv := slices.Clone(a.argv)
	end := slices.Index(argv, "--")
	if end < 0 {
		end = len(argv)
	}
	return slices.Insert(argv, end, set...)
}

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Values for flags from a file and the environment",
		Long: `Flags that are left out can get their values from a file, which --config or
KVBENCH_CONFIG names, and from variables. A flag on the command line wins over a
variable, a variable over the file. No file is read that was not named.

The keys of the file are the names of flags. At the top a key holds for every
command that has the flag; under the name of a command, for that command and those
below it, and is stronger:

  workers: 128
  quiet: true
  replay:
    track-resident-blocks: true
  trace:
    info:
      json: true

A variable is KVBENCH_ and the flag, or the command and the flag, in capitals with
_ for -: KVBENCH_WORKERS, KVBENCH_REPLAY_WORKERS, KVBENCH_TRACE_INFO_JSON. Where
both readings are possible the shorter command is meant.

A key or variable that names nothing is an error. What rounds replays has the
values of replay; trials get them as flags and see neither file nor variables.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configPrint())
	return cmd
}

func (a *app) configPrint() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "print [COMMAND...]",
		Short: "Print what file and environment set, or every flag of a command",
		Long: `Print what the file and the environment set and where each value comes from. With
a COMMAND, print the value that each of its flags would have, with defaults as
comments. What is printed is a file that --config can name. Every value is tried
on the flags that it is for.`,
		Example: `  kvbench config print --config kvbench.yaml
  kvbench config print replay > kvbench.yaml
  KVBENCH_WORKERS=128 kvbench config print trace info --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.tryAll(cmd.Root()); err != nil {
				return err
			}
			of := a.root()
			if len(args) > 0 {
				found, rest, err := of.Find(args)
				if err != nil || len(rest) > 0 || found == of {
					return fmt.Errorf("kvbench has no command %q; see 'kvbench --help'", strings.Join(args, " "))
				}
				of = found
			}
			values, err := a.values(of, len(args) > 0)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(values)
			}
			return settings.WriteYAML(a.stdout, values)
		},
		ValidArgsFunction: completeCommand,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// tryAll sets the flags of every command, of a tree that is not run, to find
// values that they refuse.
func (a *app) tryAll(root *cobra.Command) error {
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		// The flags of another tree, as this one is the one that runs.
		fresh, _, err := a.root().Find(strings.Fields(commandPath(c)))
		if err != nil {
			return err
		}
		fresh.InheritedFlags() // adds those of the commands above
		if _, err := a.settings.Apply(fresh.Flags(), commandPath(c)); err != nil {
			return err
		}
		if err := a.tryAll(c); err != nil {
			return err
		}
	}
	return nil
}

// values returns the settings, or every flag of a command.
func (a *app) values(cmd *cobra.Command, every bool) ([]settings.Value, error) {
	out := []settings.Value{}
	if !every {
		for _, x := range a.settings.All() {
			if x.Flag != settings.FileFlag {
				out = append(out, settings.Value{Setting: x})
			}
		}
		return out, nil
	}
	path := commandPath(cmd)
	cmd.InheritedFlags()
	set, err := a.settings.Apply(cmd.Flags(), path)
	if err != nil {
		return nil, err
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || slices.Contains([]string{"help", settings.FileFlag}, f.Name) {
			return
		}
		v := settings.Value{Setting: settings.Setting{Command: path, Flag: f.Name, Values: []string{f.Value.String()}, Origin: settings.Default}}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			v.Values, v.List = list.GetSlice(), true
		}
		for _, x := range set {
			if x.Flag == f.Name {
				v.Origin = x.Origin
			}
		}
		out = append(out, v)
	})
	return out, nil
}

// completeCommand offers the commands below those that were named.
func completeCommand(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	of, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, c := range of.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			out = append(out, c.Name()+"\t"+c.Short)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
