package command

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/nearest"
)

func (a *app) trace() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Describe, check, convert, cut, generate and fetch traces",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.traceInfo(), a.traceDiff(), a.traceValidate(), a.traceConvert(), a.traceSlice(), a.traceMerge(), a.traceScale(), a.traceAnonymise(), a.traceGenerate(), a.traceList(), a.traceFetch())
	return cmd
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		if name, ok := nearest.Name(args[0], names); ok {
			return fmt.Errorf("%s has no command %q; did you mean %s?", cmd.CommandPath(), args[0], name)
		}
		return fmt.Errorf("%s has no command %q; see '%s --help'", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return fmt.Errorf("%s takes no arguments and got %s; see '%s --help'", cmd.CommandPath(), strings.Join(args, " "), cmd.CommandPath())
}
