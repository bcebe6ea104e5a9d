package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/text"
	"github.com/kvbench/kvbench/traces"
	"github.com/kvbench/kvbench/traces/fetch"
)

func (a *app) traceFetch() *cobra.Command {
	var opts fetch.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fetch NAME",
		Short: "Download a public trace and verify it",
		Long: `Download a public trace of the catalogue (see 'kvbench trace list') to a folder,
and print the path of its file. Size and SHA-256 must be those of the catalogue;
what is not so is refused and removed. A download that breaks off goes on by
itself, and one that was ended goes on when the command is given again. A file
that is there already is verified and not downloaded.

--base-url names a mirror: the address of a folder that has the files by name, or
of a host that has them under the paths of their original addresses.`,
		Example: `  kvbench trace fetch mooncake-conversation --dir traces
  kvbench trace fetch mooncake-conversation --base-url https://mirror.example/traces`,
		Args: exactArgs("the NAME of a trace"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, p := range traces.Catalogue() {
				names = append(names, p.Name+"\t"+p.Description)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := traces.Find(args[0])
			if err != nil {
				return err
			}
			progress := a.progress()
			defer progress.Done()
			opts.Progress, opts.Log = progress.of("download "+p.File), a.log()
			res, err := fetch.Fetch(cmd.Context(), fetch.File{Name: p.File, URL: p.URL, Bytes: p.Bytes, SHA256: p.SHA256}, opts)
			progress.Done()
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(struct {
					Path    string `json:"path"`
					Existed bool   `json:"existed"`
					Resumed int64  `json:"resumed_bytes"`
					From    string `json:"from,omitempty"`
					traces.Public
				}{res.Path, res.Existed, res.Resumed, res.URL, p})
			}
			if !a.quiet {
				how := "fetched from " + res.URL
				if res.Existed {
					how = "was there already"
				} else if res.Resumed > 0 {
					how += fmt.Sprintf(", %d bytes of it earlier", res.Resumed)
				}
				a.tell("kvbench: ", fmt.Sprintf("%s, verified; %d bytes, licence %s, by %s", how, p.Bytes, p.Licence, p.Origin))
			}
			_, err = fmt.Fprintln(a.stdout, res.Path)
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&opts.Dir, "dir", ".", "folder to write the file to")
	fl.StringVar(&opts.BaseURL, "base-url", "", "address of a mirror (default: where the publisher has it)")
	fl.BoolVar(&opts.Overwrite, "overwrite", false, "replace another file of the same name")
	fl.IntVar(&opts.Tries, "tries", 4, "how often to try in a row without any progress")
	fl.DurationVar(&opts.Stall, "stall", 30*time.Second, "how long nothing may arrive before a try ends")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

func (a *app) traceList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the embedded traces and the public ones that can be fetched",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.printJSON(struct {
					Embedded []traces.Entry   `json:"embedded"`
					Public   []traces.Public  `json:"public"`
					Omitted  []traces.Omitted `json:"omitted"`
				}{traces.Embedded(), traces.Catalogue(), traces.OmittedTraces()})
			}
			var b text.Builder
			row := func(name, how, what string) { b.Wrap(fmt.Sprintf("%-21s  %-8s  ", name, how), what) }
			for _, e := range traces.Embedded() {
				row(e.Name, "embedded", e.Description)
			}
			for _, p := range traces.Catalogue() {
				row(p.Name, "fetch", fmt.Sprintf("%s (%.1f MB, %s)", p.Description, float64(p.Bytes)/1e6, p.Licence))
			}
			for _, o := range traces.OmittedTraces() {
				row(o.Name, "by hand", o.Origin+" ("+o.Why+")")
			}
			_, err := io.WriteString(a.stdout, b.String())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
