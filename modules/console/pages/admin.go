package pages

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/portico-run/portico/modules/console/form"
)

// check is something that was looked at.
type check struct {
	Check string
	OK    bool
	Text  string
}

// adminView is the first page of administrators: how the server does.
type adminView struct {
	Status  part[status]
	Sandbox part[sandbox]
	Probed  bool
}

type status struct {
	Version, Process    string
	Goroutines, Streams int
	Checks              []check
	StoppedUpstreams    []struct {
		Origin string
		Until  time.Time
	}
	MCPServers map[string]int
}

// Servers are the states of MCP servers, with how many there are.
func (s status) Servers() []fact {
	var facts []fact
	for _, state := range slices.Sorted(maps.Keys(s.MCPServers)) {
		facts = append(facts, fact{state, strconv.Itoa(s.MCPServers[state])})
	}
	return facts
}

type sandbox struct {
	Driver                        string
	Idle, Pool                    int
	Running, Queued, Paused       share
	Programs, ColdStarts, Refused int
	Isolation                     string
	Layers                        []check
}

// admin shows how the server does. Whoever is no administrator is told that there
// is no such page.
func (p *Pages) admin(v *Visit) (Answer, error) {
	view := adminView{Status: load[status](v, "/v1/admin/status", nil), Probed: v.R.URL.Query().Get("probe") == "true"}
	if err := hidden(view.Status.err); err != nil {
		return Answer{}, err
	}
	view.Sandbox = load[sandbox](v, "/v1/admin/sandbox", pick(v.R.URL.Query(), "probe"))
	return Answer{Title: "Administration", Template: "admin", Data: view}, nil
}

// hidden is what the person is told of a page for administrators: an error of the
// API other than that the page is not theirs is shown in the page's parts.
func hidden(err error) error {
	if p, ok := ProblemOf(err); ok && (p.Status == http.StatusForbidden || p.Status == http.StatusNotFound) {
		return errNoPage
	}
	return err
}

// read asks for one thing that administrators see.
func (v *Visit) read(path string, query url.Values, into any) error {
	return hidden(v.get("/v1/admin/"+path, query, into))
}

type ptcView struct {
	UID, Toolsets, Title string
	Policy               policy
	Decision             *decision
}

type policy struct {
	Mode                                      string
	Users, ToolsetAllowlist, ToolsetBlocklist []string
	RolloutPercent                            json.Number
	RolloutSalt, Debug                        string
	Sequential, BreakEven                     bool
}

type decision struct {
	Enabled, Sequential bool
	Steps               []struct{ Check, Result, Reason string }
}

// adminPTC says who may use programmatic tool calling, and why.
func (p *Pages) adminPTC(v *Visit) (Answer, error) {
	q := v.R.URL.Query()
	view := ptcView{UID: q.Get("uid"), Toolsets: q.Get("toolsets"), Title: q.Get("title")}
	if err := v.read("ptc/policy", nil, &view.Policy); err != nil {
		return Answer{}, err
	}
	if view.UID != "" {
		view.Decision = new(decision)
		if err := v.read("ptc/decision", pick(q, "uid", "toolsets", "title"), view.Decision); err != nil {
			return Answer{}, err
		}
	}
	return Answer{Title: "Programmatic tool calling", Template: "admin-ptc", Data: view}, nil
}

type adminToolsetsView struct {
	Toolsets []struct {
		Key, Name, Type, Domain string
		Builtin                 bool
		Tools                   int
	}
	Problems []struct {
		File    string
		Line    int
		Problem string
	}
}

func (p *Pages) adminToolsets(v *Visit) (Answer, error) {
	var view adminToolsetsView
	if err := v.read("toolsets", nil, &view); err != nil {
		return Answer{}, err
	}
	return Answer{Title: "Toolsets of this server", Template: "admin-toolsets", Data: view}, nil
}

func (p *Pages) adminAudit(v *Visit) (Answer, error) {
	q := v.R.URL.Query()
	var page list[event]
	if err := v.read("audit", pick(q, "cursor", "uid", "action"), &page); err != nil {
		return Answer{}, err
	}
	view := activityView{Events: page.Items, Next: v.next(page.NextCursor), All: true, UID: q.Get("uid"), Action: q.Get("action")}
	return Answer{Title: "All changes", Template: "activity", Data: view}, nil
}

type spending struct {
	UID                 string
	Run, Day, Overdraft *json.Number
	UpdatedAt           time.Time
}

type adminLimitsView struct {
	Usual spending
	Users list[spending]
	Plans []struct {
		LookupKey, PlanType, Interval string
		Monthly, DailyGift            json.Number
	}
	Set  form.View
	Next string
}

// limitsForm asks for what a user may spend.
const limitsForm = `{"type":"object","additionalProperties":false,"required":["uid"],"properties":{
	"uid":{"x-label":"User","type":"string","minLength":1,"maxLength":64,"description":"The id of the user"},
	"run":{"x-label":"Credits of a run","type":"number","minimum":0,"description":"What is left empty follows the server's settings"},
	"day":{"x-label":"Credits of a day","type":"number","minimum":0},
	"overdraft":{"x-label":"Overdraft","type":"number","minimum":0}}}`

func (p *Pages) adminLimits(v *Visit) (Answer, error) {
	return p.showLimits(v, p.newLimits.View("set", nil, nil), http.StatusOK)
}

func (p *Pages) showLimits(v *Visit, set form.View, status int) (Answer, error) {
	view := adminLimitsView{Set: set}
	if err := v.read("limits/usual", nil, &view.Usual); err != nil {
		return Answer{}, err
	}
	if err := v.read("limits", pick(v.R.URL.Query(), "cursor"), &view.Users); err != nil {
		return Answer{}, err
	}
	if err := v.read("plans", nil, &view.Plans); err != nil {
		return Answer{}, err
	}
	view.Next = v.next(view.Users.NextCursor)
	return Answer{Title: "Limits", Template: "admin-limits", Data: view, Status: status}, nil
}

func (p *Pages) setLimits(v *Visit) (Answer, error) {
	view, ok, err := v.submit(p.newLimits, "set", func(body json.RawMessage) error {
		var of struct{ UID string }
		var limits map[string]json.RawMessage
		if err := json.Unmarshal(body, &of); err != nil {
			return errNoForm
		}
		if err := json.Unmarshal(body, &limits); err != nil {
			return errNoForm
		}
		delete(limits, "uid")
		return v.send(http.MethodPut, "/v1/admin/limits/"+url.PathEscape(of.UID), limits, nil)
	})
	if err != nil {
		return Answer{}, hidden(err)
	}
	if !ok {
		return p.showLimits(v, view, http.StatusUnprocessableEntity)
	}
	return Answer{To: "/admin/limits"}, nil
}
