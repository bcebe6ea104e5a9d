package stats

import "testing"

func TestStratifiedNeedsBothOrders(t *testing.T) {
	for name, change := range map[string]func(p *Pairs){
		"an unknown slot": func(p *Pairs) { p.Kept[3].XSlot = -1 },
		"one slot twice":  func(p *Pairs) { p.Kept[3].XSlot = p.Kept[3].YSlot },
		"one order": func(p *Pairs) {
			for i := range p.Kept {
				p.Kept[i].XSlot, p.Kept[i].YSlot = 0, 1
			}
		},
		"one round of an order": func(p *Pairs) {
			for i := range p.Kept[1:] {
				p.Kept[i+1].XSlot, p.Kept[i+1].YSlot = 1, 0
			}
		},
	} {
		p := quiet()
		change(&p)
		if iv := Stratified(p, 0.95); iv.Absent != OrderUnknown || iv.Explain() == "" {
			t.Errorf("%s: %+v", name, iv)
		}
	}
	p := quiet()
	p.Kept[0].X = 0
	if iv := Stratified(p, 0.95); iv.Absent != NotPositive {
		t.Errorf("a ratio of 0: %+v", iv)
	}
	p.Kept = p.Kept[1:5]
	if iv := Stratified(p, 0.95); iv.Absent != TooFewValues {
		t.Errorf("four pairs: %+v", iv)
	}
}
