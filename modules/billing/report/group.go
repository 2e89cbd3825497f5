package report

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// The groupings of a report.
const (
	ByDay     = "day"
	ByTool    = "tool"
	ByModel   = "model"
	ByToolset = "toolset"
)

// Grouping says what a line of a report is.
type Grouping struct {
	By string
	// Zone is the IANA name of the time zone whose days are meant; UTC when
	// empty. It is for ByDay only.
	Zone string
}

// ReportBy sums up what the actor was charged in a period. By day the lines are
// in the order of days; otherwise the dearest is first. ByTool and ByToolset
// count calls of tools only, ByModel only those of models.
func (s *Service) ReportBy(ctx context.Context, a actor.Actor, p Period, g Grouping) (Statement, error) {
	if g.By == ByDay {
		return s.byDay(ctx, a, p, g.Zone)
	}
	if g.Zone != "" {
		return Statement{}, errs.New(errs.Invalid, "A time zone says nothing where lines are not days.").Do("Send by=day, or leave tz out.")
	}
	all, err := s.Report(ctx, a, p)
	if err != nil {
		return Statement{}, err
	}
	out := Statement{Lines: []Line{}}
	at := map[Line]int{} // by what names a line
	for _, l := range all.Lines {
		if (l.Type == modelCall) != (g.By == ByModel) {
			continue
		}
		name := Line{Type: l.Type, Toolset: l.Toolset, Model: l.Model}
		if g.By == ByTool {
			name.Tool = l.Tool
		}
		i, found := at[name]
		if !found {
			i = len(out.Lines)
			at[name] = i
			out.Lines = append(out.Lines, name)
		}
		out.Lines[i].add(l)
		out.Total += l.Total
		out.Charged += l.Charged
	}
	slices.SortStableFunc(out.Lines, dearest)
	return out, nil
}

// modelCall is the usage type of calls of language models.
const modelCall = "model_call"

func (l *Line) add(other Line) {
	l.Calls += other.Calls
	l.Total += other.Total
	l.Charged += other.Charged
}

// byDay adds up here: a database may add decimals as floating-point numbers, and
// only one of the two knows time zones. What is read of a day is what moments of
// it add up to, so that memory is bounded by the number of days.
func (s *Service) byDay(ctx context.Context, a actor.Actor, p Period, zone string) (Statement, error) {
	place, err := time.LoadLocation(cmp.Or(zone, "UTC"))
	if err != nil || strings.EqualFold(zone, "local") {
		return Statement{}, errs.Newf(errs.Invalid, "There is no time zone %q.", zone).Do("Send a name such as UTC or Europe/Berlin.")
	}
	out := Statement{Lines: []Line{}, Zone: place.String()}
	days := map[string]*Line{}
	err = s.rows.each(s.db.Read(ctx), a.UID, p, func(u usage) {
		day := u.CreatedAt.In(place).Format(time.DateOnly)
		if days[day] == nil {
			days[day] = &Line{Day: day}
		}
		days[day].add(Line{Calls: 1, Total: u.DueAmount, Charged: u.Amount})
		out.Total += u.DueAmount
		out.Charged += u.Amount
	})
	for _, l := range days {
		out.Lines = append(out.Lines, *l)
	}
	slices.SortFunc(out.Lines, func(a, b Line) int { return cmp.Compare(a.Day, b.Day) })
	return out, err
}
