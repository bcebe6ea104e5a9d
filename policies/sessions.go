package policies

// Sessions is where sessions were served last.
type Sessions struct{}

func (s *Sessions) lookUp(r *Request) SessionInput { return SessionInput{} }
