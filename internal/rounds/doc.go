// Package rounds compares variants by rounds: every variant runs once in each
// round, in a process of its own, in an order that is balanced and recorded, and
// the figure of a comparison is the ratio of two variants within a round.
//
// It plans, starts child processes, keeps a journal, resumes, and turns the
// journal into comparisons. It knows no statistics (package stats), measures
// nothing itself (package replay, or whatever program a variant names), and gives
// no verdict.
//
// # An experiment is a folder
//
//	manifest.json   everything that must not change: variants with the hashes of
//	                their programs and of the files that their arguments name,
//	                flags, corpus, order, seed, rules, machine
//	journal.jsonl   one line for each trial and for what happened around them,
//	                synced before the next trial starts
//	notes.jsonl     notes made while another process ran it; empty otherwise
//	lock            held by the process that runs the experiment, and by its child
//	work.corpus     the work, prepared once, if the manifest does not name another file
//	trial/          where a running child writes its record
//	pilot/          the A/A experiment of a forecast, if there was one
//
// Figures are a pure function of manifest and journal:
//
//	exp, err := rounds.Open("exp/")                           // finished or running; takes no lock
//	a, err := exp.Analyse(rounds.AnalyseOptions{})            // what the manifest asks for
//	a, err = exp.Analyse(rounds.AnalyseOptions{               // or something else
//		Ratios:  []rounds.Ratio{{Of: "head", To: "base"}},
//		Metrics: []string{"rates.achieved_block_ops_per_sec", "query_service.p99"},
//	})
//	for _, c := range a.Comparisons { … }                     // one for each metric and ratio
//	c.Result                                                  // stats.Comparison: intervals, worst case, warnings
//	c.Metric.Better                                           // stats.Higher or stats.Lower
//	c.Refused                                                 // why the metric is no result under this load, "" if it is one
//	c.Result.Pairs.Kept, c.Result.Pairs.Dropped, c.Planned    // pairs used, rounds left out with reasons
//	a.Floor                                                   // the A/A comparisons, if the experiment has a control
//	err = a.Write(w, rounds.Markdown)                         // Text, Markdown, CSV, JSON; WriteBenchfmt for the trials
//
// # Running
//
//	plan := &rounds.Plan{Variants: …, Work: …, Rounds: 20, Order: rounds.Balanced, Rules: rounds.DefaultRules()}
//	exp, odd, err := rounds.Create(ctx, dir, plan, progress)  // prepares the work; refuses a folder in use
//	err = exp.Run(ctx, rounds.RunOptions{Progress: p})        // all that is left to do; kill -9 loses the running trial only
//
// Run returns nil when the planned rounds are done, [ErrInterrupted] when ctx
// ended (the child is ended, the journal kept), a [*ChildError] when a variant
// cannot run at all, a [*ChangedError] when a program was replaced. A trial whose
// variant names a file that was changed is invalid. More rounds on the same
// experiment, and what a caller must remember of it, such as a verdict that was
// given:
//
//	err = exp.Extend(30, "sequential look 3")                 // 30 rounds in all; recorded in the journal
//	err = exp.Run(ctx, …)
//	err = exp.Note("gate", look)                              // any value that encodes as JSON, synced
//	notes := exp.Notes("gate")                                // []json.RawMessage, oldest first
//
// Rounds are numbered from 1; the warm-up round is 0 and enters nothing. Create,
// Run, Extend and Note are not for concurrent use; an *Experiment that nobody runs
// may be read from any goroutine. Two processes cannot run one experiment.
//
// # What is made equal
//
// All children of a round get the same working directory, the same environment
// but for padding, and the same number of bytes and pointers of arguments plus
// environment, so that no variant's stack lies elsewhere only because its flags
// are longer; the padding differs from round to round. All write their record to
// the same path and read the same corpus. The parent sleeps while a child runs
// and leaves its CPUs, where there are others.
package rounds
