package rounds

// TrialReading is what one trial that counts showed of a metric.
type TrialReading struct {
	Trial *Trial
	Value float64
	// Missing says why there is no value: the trial is invalid, or its record has
	// no such figure; "" if there is one.
	Missing string
}

// Readings returns what the trials of the first so many rounds showed of a metric,
// in the order in which they ran; 0 rounds are all. Warm-up and attempts that a
// retry replaced are left out.
func (e *Experiment) Readings(m Metric, rounds int) ([]TrialReading, error) {
	s := &sample{e: e, rounds: len(e.rows)}
	if rounds > 0 {
		s.rounds = min(s.rounds, rounds)
	}
	if err := s.read(); err != nil {
		return nil, err
	}
	var out []TrialReading
	for i := range e.Trials {
		t := &e.Trials[i]
		if last := s.last[t.Variant]; last == nil || last[t.Round] != t {
			continue
		}
		r := TrialReading{Trial: t}
		if t.Valid {
			r.Value, r.Missing = m.read(t, s.of[t])
		} else {
			r.Missing = reasonText(t.Reasons)
		}
		out = append(out, r)
	}
	return out, nil
}
