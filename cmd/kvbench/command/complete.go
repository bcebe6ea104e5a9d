package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvbench/kvbench/internal/simulate"
	"github.com/kvbench/kvbench/internal/sweep"
)

// completeTexts says of every flag with a text as its value what a shell offers,
// unless the command has said so: a flag means the same in all commands.
func completeTexts(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		_, values := cmd.GetFlagCompletionFunc(f.Name)
		_, files := f.Annotations[cobra.BashCompFilenameExt]
		_, folders := f.Annotations[cobra.BashCompSubdirsInDir]
		if values || files || folders {
			return
		}
		switch f.Name {
		case "out":
			// Of some commands a file and of some a folder.
			_ = cmd.MarkFlagFilename(f.Name)
		case "baseline":
			_ = cmd.MarkFlagDirname(f.Name)
		case "bencher", "benchfmt", "cpu-profile", "criteria", "csv", "decisions", "from", "github-benchmark", "html",
			"json-file", "junit", "key-file", "machine-lock-file", "markdown", "repro", "timeline":
			if f.Value.Type() != "bool" {
				_ = cmd.MarkFlagFilename(f.Name)
			}
		case "alone", "backend-cpus", "base-url", "cpus", "env", "inject-query-work", "issuer-cpus", "ratio", "session",
			"shared-prefix", "title", "variant":
			// Nothing that could be known here, and no file either.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
		}
	})
	for _, c := range cmd.Commands() {
		completeTexts(c)
	}
}

// completeVariant completes the last word of NAME=--flags of a replay: flags, and
// after the = of one its values.
func (a *app) completeVariant(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	const nothing = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	name, flags, ok := strings.Cut(typed, "=")
	if !ok || name == "" {
		return nil, nothing
	}
	last := strings.LastIndexByte(flags, ' ') + 1
	before, word := name+"="+flags[:last], flags[last:]
	if word != "" && !strings.HasPrefix(word, "-") {
		return nil, nothing // a program, or the value of the flag before
	}
	replay := a.replay()
	flag, value, hasValue := strings.Cut(word, "=")
	var out []string
	if !hasValue {
		replay.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || slices.Contains(ownOfRounds, f.Name) || ofPreparation(f.Name) {
				return
			}
			text := before + "--" + f.Name
			if f.NoOptDefVal == "" {
				text += "="
			}
			out = append(out, text+"\t"+f.Usage)
		})
		return starting(out, typed), nothing
	}
	complete, ok := replay.GetFlagCompletionFunc(strings.TrimPrefix(flag, "--"))
	if !ok {
		return nil, nothing
	}
	values, _ := complete(replay, nil, value)
	for _, v := range values {
		out = append(out, before+flag+"="+v)
	}
	return starting(out, typed), nothing
}

// starting returns the texts that begin with what was typed. Cobra filters what it
// prints for some shells only.
func starting(texts []string, typed string) []string {
	var out []string
	for _, t := range texts {
		if strings.HasPrefix(t, typed) {
			out = append(out, t)
		}
	}
	return out
}

func completeAxis(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, name := range sweep.AxisNames() {
		out = append(out, name+"=")
	}
	return starting(out, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeSLO offers the limits that are not given yet.
func completeSLO(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	done := typed[:strings.LastIndexByte(typed, ',')+1]
	var out []string
	for _, name := range simulate.Limits() {
		if !strings.Contains(","+done, ","+name+"=") {
			out = append(out, done+name+"=")
		}
	}
	return starting(out, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
