package command

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/internal/wholefile"
	"github.com/kvbench/kvbench/trace/rewrite"
)

func (a *app) traceAnonymise() *cobra.Command {
	var f rewriteFlags
	var an rewrite.Anonymise
	var ids, keyFile string
	var seed uint64
	cmd := &cobra.Command{
		Use:     "anonymise TRACE|NAME --out FILE",
		Aliases: []string{"anonymize"},
		Short:   "Take ids, names and the time of day out of a trace",
		Long: `Rename the ids and sessions of a trace, and count times from the first row. Text and
all fields that kvbench does not read are gone. What shares what, lengths and gaps
stay: they are what a trace is for, and who knows some of them finds them again.

Ids that are hashes of text can be tested against guesses; after this only who has
the key can. By default it is a random one that nobody has. --key-file and --seed
make it known, so that several traces can be renamed alike; a seed is a number that
others can try, so take it for tests alone.`,
		Example: `  kvbench trace anonymise production.jsonl --out public.jsonl.zst
  kvbench trace anonymise monday.jsonl --key-file key --out monday-public.jsonl`,
		Args:              exactArgs("a TRACE or the NAME of an embedded one"),
		ValidArgsFunction: completeTrace,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch ids {
			case "permuted", "numbered":
				an.Numbered = ids == "numbered"
			default:
				return fmt.Errorf("--ids is %q; it must be permuted or numbered", ids)
			}
			var err error
			switch fl := cmd.Flags(); {
			case fl.Changed("seed") && fl.Changed("key-file"):
				return errors.New("--seed and --key-file both say the key; leave one out")
			case fl.Changed("seed"):
				an.Key = strconv.AppendUint(nil, seed, 10)
			case fl.Changed("key-file"):
				if an.Key, err = wholefile.Read(keyFile, "a key", 1<<20); err != nil {
					return fmt.Errorf("--key-file: %w", err)
				}
				if len(an.Key) < 16 {
					return fmt.Errorf("--key-file: %s has %d bytes; give 16 random ones or more, as from 'head -c 32 /dev/urandom'", keyFile, len(an.Key))
				}
			default:
				an.Key = make([]byte, 32)
				if _, err := rand.Read(an.Key); err != nil {
					return err
				}
			}
			if keyFile != "" && f.toFile() {
				if err := checkOutputs(f.overwrite, []string{keyFile}, outputFile{"--out", f.out}); err != nil {
					return err
				}
			}
			return a.rewrite(cmd, &f, args[0], false, func(src rewrite.Source) (rewrite.Source, error) {
				return rewrite.NewAnonymiser(rewrite.Check(src), an), nil
			})
		},
	}
	f.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&ids, "ids", "permuted", "what ids become: permuted by the key, or numbered from 0 as they appear, which takes memory for each distinct one")
	fl.StringVar(&keyFile, "key-file", "", "file with the key (default: a random key that is not kept)")
	fl.Uint64Var(&seed, "seed", 0, "make the key of this number (default: a random key that is not kept)")
	fl.BoolVar(&an.KeepTimes, "keep-times", false, "leave times as they are")
	_ = cmd.RegisterFlagCompletionFunc("ids", fixed("permuted", "numbered"))
	return cmd
}
