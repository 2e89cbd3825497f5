package pages

import (
	"encoding/json"
	"fmt"
	"time"
)

// limits are what the person may spend, store and run at once, and how much of it
// is taken.
type limits struct {
	Plan                                             string
	Credits                                          creditLimits
	Storage                                          struct{ UsedBytes, QuotaBytes int64 }
	Calls, Programs, ProgramsWaiting, ProgramsPaused share
	Runs                                             share
	Processes                                        struct{ Counted, Live int }
}

type creditLimits struct {
	RunLimit, DayLimit, Overdraft *json.Number
	SpentToday, Held              json.Number
	DaySince                      time.Time
}

// share is how many there are now, of how many there may be.
type share struct {
	Now  int
	Most *int
}

// String says it in words.
func (s share) String() string {
	if s.Most == nil {
		return fmt.Sprintf("%d now, no limit", s.Now)
	}
	return fmt.Sprintf("%d now, at most %d", s.Now, *s.Most)
}

// dayReport is what was charged, by day.
type dayReport struct{ Lines []dayLine }

type dayLine struct {
	Day     string
	Calls   int64
	Charged json.Number
}

func (l dayLine) amount() float64 {
	f, _ := l.Charged.Float64() // no charge is none
	return f
}

func (d dayReport) byDay() (by map[string]dayLine, most float64) {
	by = map[string]dayLine{}
	for _, l := range d.Lines {
		if l.Day != "" {
			by[l.Day] = l
			most = max(most, l.amount())
		}
	}
	return by, most
}
