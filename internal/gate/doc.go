// Package gate turns an experiment's comparisons into one verdict that a CI job
// can act on, keeps account of how often it has looked, and writes the verdict in
// the formats that other tools read.
//
// Trials and rounds are run by package rounds, intervals come from package stats.
//
// # The rule
//
// Each row is a metric of a ratio with a margin. With [L, U] the interval of the
// median same-round ratio of a metric that is better when higher:
//
//	PASS          L > 1 - margin
//	FAIL          not PASS, and U < 1
//	INCONCLUSIVE  otherwise
//	UNMEASURABLE  the machine, the A/A control or the invalid trials forbid a verdict
//
// The whole passes if every row passes, which needs no correction: a false PASS
// needs a false PASS of the row that is worse. It fails if a row fails after
// Holm's correction over all rows. Verdicts come from unrounded numbers.
//
// # Looking more than once
//
// A verdict by the 95% interval holds for one look at a number of rounds that was
// fixed before. Looking again after more rounds needs a wider interval, or the
// chance of a wrong verdict grows with every look. So each look is written to
// the experiment:
//
//   - fixed: one look, at the planned rounds. The same look again gives the same
//     verdict and costs nothing.
//   - sequential: looks at 10, 20, 30 and 40 rounds, each with an interval of
//     98.18% (Pocock's boundaries), which together keep the level.
//   - anytime: any number of looks, with the interval of a sequence of signs that
//     holds at all of them at once; it is wider. The only one after a fixed look.
//
// A look that says UNMEASURABLE is spent like any other, since it shows its
// interval. It gives no verdict, so it ends no sequence: the sequential schedule
// goes on to its next look where more rounds may mend it, as they do a wide
// control, and stops where the machine is unfit. Its four intervals hold together,
// so leaving verdicts out cannot make a wrong one more likely. The same look at the
// same rounds may be taken again with the machine allowed; both stay noted.
//
// An experiment that was looked at by one schedule cannot change to another that
// does not allow for what was spent. Looks are noted in the journal among the trials
// (beside it only while another process runs them), so they cannot be deleted alone; merging keeps them; rounds that were added, looked at
// or not, are none that were planned; the level is that of earlier looks; and a report
// lists the looks before it, with their rules and verdicts. A fixed look and the anytime
// sequence after it may each be wrong.
//
// What no gate can see: a copy of the folder from before a look, a journal edited by
// hand, and experiments that were begun anew until one pleased.
package gate
