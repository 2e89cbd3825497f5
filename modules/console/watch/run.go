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
	Programs programs
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
	for i, p := range v.Programs.Items {
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
	if view.Programs, err = p.programsOf(v, id, view.Run.Version, ""); err != nil {
		return pages.Answer{}, err
	}
	for i, one := range view.Programs.Items {
		if slices.Contains(view.Run.Errors, one.Error) { // it stands above all
			view.Programs.Items[i].Error = ""
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

// programs are some of a run. From is where the API has those that follow, or, without
// More, those that may follow later.
type programs struct {
	Items []program
	From  string
	More  bool
}

// maxPrograms is how much code and output one answer has. A page of the API is never
// divided.
const maxPrograms = 1 << 20

// programsOf reads the programs of a run from a place on, with their lines.
func (p *Pages) programsOf(v *pages.Visit, id string, version int, from string) (programs, error) {
	found := programs{From: from}
	for size := 0; size < maxPrograms; {
		page, err := programsPage(v, id, version, found.From)
		if err != nil {
			return programs{}, err
		}
		for _, one := range page.Items {
			one.Lines = p.color.lines(one.Language, one.Code)
			size += len(one.Code) + len(one.Stdout) + len(one.Stderr)
			found.Items = append(found.Items, one)
		}
		if found.More = page.NextCursor != ""; !found.More {
			break
		}
		found.From = page.NextCursor
	}
	return found, nil
}

func programsPage(v *pages.Visit, id string, version int, from string) (page list[program], err error) {
	query := url.Values{"version": {strconv.Itoa(version)}, "cursor": {from}}
	return page, read(v, "/v1/action/"+url.PathEscape(id)+"/programs", query, &page)
}

// programs gives the page the programs that it does not have yet.
func (p *Pages) programs(v *pages.Visit) (pages.Answer, error) {
	query := v.R.URL.Query()
	version, err := strconv.Atoi(query.Get("version"))
	if err != nil {
		version = 0
	}
	found, err := p.programsOf(v, v.R.PathValue("id"), version, query.Get("from"))
	if err != nil {
		return pages.Answer{}, err
	}
	v.W.Header().Set("Content-Type", "application/json")
	type shown struct {
		CallID   string `json:"callId"`
		Language string `json:"language"`
		Lines    []Line `json:"lines"`
		Error    string `json:"error"`
		Cut      bool   `json:"cut"`
	}
	list := make([]shown, len(found.Items))
	for i, one := range found.Items {
		list[i] = shown{one.CallID, one.Language, one.Lines, one.Error, one.Cut}
	}
	return pages.Answer{}, json.NewEncoder(v.W).Encode(map[string]any{"programs": list, "from": found.From, "more": found.More})
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
	one, err := find(v, id, version, v.R.PostFormValue("program"))
	if err != nil {
		return pages.Answer{}, err
	}
	return p.start(v, job{Code: one.Code, Language: one.Language, Toolsets: one.Toolsets, CanvasID: one.CanvasID, Timeout: one.TimeoutMS, Title: "Replay of " + id, Background: true})
}

// find reads one program of a run: that of a call, or, where none is named, the first.
func find(v *pages.Visit, id string, version int, callID string) (program, error) {
	for from := ""; ; {
		page, err := programsPage(v, id, version, from)
		if err != nil {
			return program{}, err
		}
		for _, one := range page.Items {
			if callID == "" || one.CallID == callID {
				return one, nil
			}
		}
		if from = page.NextCursor; from == "" {
			return program{}, pages.Refusal{Problem: pages.Problem{Status: http.StatusNotFound}}
		}
	}
}
