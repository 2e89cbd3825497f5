package pages

import (
	"maps"
	"slices"
	"time"
)

// event is one entry of the audit log.
type event struct {
	UID, Action, Subject, KeyID string
	Detail                      map[string]string
	CreatedAt                   time.Time
}

// Details are what is known beside, by name.
func (e event) Details() []fact {
	var facts []fact
	for _, name := range slices.Sorted(maps.Keys(e.Detail)) {
		facts = append(facts, fact{name, e.Detail[name]})
	}
	return facts
}

// fact is a name and what it stands for.
type fact struct{ Name, Value string }

type activityView struct {
	Events []event
	Next   string
	All    bool // of all users
	// What is looked for, of all users.
	UID, Action string
}

func (p *Pages) activity(v *Visit) (Answer, error) {
	var page list[event]
	if err := v.get("/v1/auth/audit", pick(v.R.URL.Query(), "cursor"), &page); err != nil {
		return Answer{}, err
	}
	return Answer{Title: "Activity", Template: "activity", Data: activityView{Events: page.Items, Next: v.next(page.NextCursor)}}, nil
}
