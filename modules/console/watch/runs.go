package watch

import (
	"encoding/json"
	"time"

	"github.com/portico-run/portico/modules/console/pages"
)

// action is a run as the API has it.
type action struct {
	ResultID, Type, Title, Status, TargetID, ModelName string
	Version                                            int
	Errors, Warnings, Toolsets                         []string
	Totals                                             totals
	LastEventID                                        int64
	CreatedAt, UpdatedAt                               time.Time
	Messages                                           []message
	MessagesCursor                                     string // set where there are more
	Input                                              json.RawMessage
}

type totals struct {
	Calls, Running, Waiting, Failed      int64
	Credits                              string
	ResultTokens, ProgramTokens, KeptOut int64
}

type message struct {
	MessageID, Type, Content, ToolCallID string
}

// Name is the title, or what stands for one.
func (a action) Name() string {
	if a.Title == "" {
		return "Untitled run"
	}
	return a.Title
}

// State is the run's in the words of the console.
func (a action) State() string { return stateOf(a.Status) }

// Live reports whether the run goes on.
func (a action) Live() bool { return a.Status == "running" || a.Status == "waiting" }

// Took is how long the run has taken so far, as words.
func (a action) Took(now time.Time) string {
	end := a.UpdatedAt
	if a.Live() {
		end = now
	}
	return span(end.Sub(a.CreatedAt))
}

func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// stateOf is a state of the API as the console shows it.
func stateOf(status string) string {
	switch status {
	case "finish", "completed":
		return "ok"
	case "error", "failed":
		return "failed"
	case "executing":
		return "running"
	}
	return status
}

type runsView struct {
	Runs   []action
	Filter map[string]string
	States []string
	Next   string
}

func (p *Pages) runs(v *pages.Visit) (pages.Answer, error) {
	query := pick(v.R.URL.Query(), "status", "canvasId", "toolset", "q", "from", "until", "cursor")
	var page list[action]
	if err := read(v, "/v1/action/list", query, &page); err != nil {
		return pages.Answer{}, err
	}
	view := runsView{Runs: page.Items, Filter: map[string]string{}, States: []string{"running", "waiting", "finish", "error", "aborted"}}
	for name := range query {
		if name != "cursor" {
			view.Filter[name] = query.Get(name)
		}
	}
	if page.NextCursor != "" {
		q := v.R.URL.Query()
		q.Set("cursor", page.NextCursor)
		view.Next = "?" + q.Encode()
	}
	return pages.Answer{Title: "Runs", Template: "runs", Data: view}, nil
}
