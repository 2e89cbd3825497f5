package watch

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/portico-run/portico/modules/console/pages"
)

// program is one of a run as the API has it, with its lines.
type program struct {
	CallID, Code, Language, CanvasID string
	Toolsets                         []string
	TimeoutMS                        int64
	Status, Stdout, Stderr, Error    string
	Cut                              bool
	ExitCode                         *int
	Calls                            int64
	Lines                            []Line
}

// State is the program's in the words of the console.
func (p program) State() string { return stateOf(p.Status) }

// call is the record of a call as the API has it.
type call struct {
	CallID, PTCCallID, Type, ResultID, ToolsetID, ToolName, Error, Status, Credits string
	Version, Line                                                                  int
	Input, Output                                                                  json.RawMessage
	CreatedAt, UpdatedAt                                                           int64
}

// State is the call's in the words of the console.
func (c call) State() string { return stateOf(c.Status) }

// Took is how long the call took; empty while it goes on.
func (c call) Took() string {
	if c.Status == "executing" || c.Status == "waiting" {
		return ""
	}
	return span(time.Duration(c.UpdatedAt-c.CreatedAt) * time.Millisecond)
}

type runView struct {
	Run      action
	Took     string
	Base     string
	Programs []program
	Calls    []call // the first ones, for browsers without scripts
	More     bool
}

// Talk reports whether somebody asked or answered something.
func (v runView) Talk() bool {
	for _, m := range v.Run.Messages {
		if m.Type == "human" || m.Type == "ai" {
			return true
		}
	}
	return false
}

// Wrote is the number of the program that a call ran, from 1; 0 for other calls.
func (v runView) Wrote(callID string) int {
	for i, p := range v.Programs {
		if p.CallID == callID {
			return i + 1
		}
	}
	return 0
}

// callsWithoutScripts is how many calls a browser without scripts is shown.
const callsWithoutScripts = 100

func (p *Pages) run(v *pages.Visit) (pages.Answer, error) {
	id := v.R.PathValue("id")
	query := url.Values{"resultId": {id}}
	if version := v.R.URL.Query().Get("version"); version != "" {
		query.Set("version", version)
	}
	view := runView{Base: p.base}
	if err := read(v, "/v1/action/result", query, &view.Run); err != nil {
		return pages.Answer{}, err
	}
	view.Took = view.Run.Took(p.now())
	var err error
	if view.Programs, err = p.programsOf(v, id, view.Run.Version); err != nil {
		return pages.Answer{}, err
	}
	for i, one := range view.Programs {
		if slices.Contains(view.Run.Errors, one.Error) { // it stands above all
			view.Programs[i].Error = ""
		}
	}
	query.Set("version", strconv.Itoa(view.Run.Version))
	query.Set("limit", strconv.Itoa(callsWithoutScripts))
	query.Set("payload", "false")
	var calls list[call]
	if err := read(v, "/v1/tool/calls", query, &calls); err != nil {
		return pages.Answer{}, err
	}
	for _, c := range calls.Items {
		if view.Wrote(c.CallID) == 0 {
			view.Calls = append(view.Calls, c)
		}
	}
	view.More = calls.NextCursor != ""
	return pages.Answer{Title: view.Run.Name(), Template: "run", Data: view, Wide: true}, nil
}

// programsOf reads the programs of a run, with their lines.
func (p *Pages) programsOf(v *pages.Visit, id string, version int) ([]program, error) {
	var page list[program]
	query := url.Values{"version": {strconv.Itoa(version)}}
	if err := read(v, "/v1/action/"+url.PathEscape(id)+"/programs", query, &page); err != nil {
		return nil, err
	}
	for i, one := range page.Items {
		page.Items[i].Lines = p.color.lines(one.Language, one.Code)
	}
	return page.Items, nil
}

// programs gives the page the programs that began since it was made.
func (p *Pages) programs(v *pages.Visit) (pages.Answer, error) {
	version, err := strconv.Atoi(v.R.URL.Query().Get("version"))
	if err != nil {
		version = 0
	}
	programs, err := p.programsOf(v, v.R.PathValue("id"), version)
	if err != nil {
		return pages.Answer{}, err
	}
	v.W.Header().Set("Content-Type", "application/json")
	type shown struct {
		CallID   string `json:"callId"`
		Language string `json:"language"`
		Lines    []Line `json:"lines"`
	}
	list := make([]shown, len(programs))
	for i, one := range programs {
		list[i] = shown{one.CallID, one.Language, one.Lines}
	}
	return pages.Answer{}, json.NewEncoder(v.W).Encode(list)
}

func (p *Pages) abort(v *pages.Visit) (pages.Answer, error) {
	id := v.R.PathValue("id")
	err := send(v, "/v1/action/abort", map[string]any{"resultId": id}, nil)
	return pages.Answer{To: "/runs/" + url.PathEscape(id)}, err
}

// replay runs a program again as a new run, with what it had.
func (p *Pages) replay(v *pages.Visit) (pages.Answer, error) {
	id := v.R.PathValue("id")
	version, err := strconv.Atoi(v.R.PostFormValue("version"))
	if err != nil {
		version = 0
	}
	programs, err := p.programsOf(v, id, version)
	if err != nil {
		return pages.Answer{}, err
	}
	for _, one := range programs {
		if one.CallID == v.R.PostFormValue("program") {
			return p.start(v, job{Code: one.Code, Language: one.Language, Toolsets: one.Toolsets, CanvasID: one.CanvasID, Timeout: one.TimeoutMS, Title: "Replay of " + id, Background: true})
		}
	}
	return pages.Answer{}, pages.Refusal{Problem: pages.Problem{Status: http.StatusNotFound}}
}
