package watch

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/portico-run/portico/modules/console/pages"
)

// job is a program for the API to run.
type job struct {
	Code       string   `json:"code"`
	Language   string   `json:"language"`
	Toolsets   []string `json:"toolsets,omitempty"`
	CanvasID   string   `json:"canvasId,omitempty"`
	Timeout    int64    `json:"timeout,omitempty"`
	Title      string   `json:"title,omitempty"`
	Background bool     `json:"background"`
}

type playgroundView struct {
	Job       job
	Seconds   string
	Languages []string
	Canvases  []canvas
	Demo      string
	Question  string
	Problem   *pages.Problem
}

type canvas struct{ CanvasID, Title string }

// demo calls the bundled tools, four at a time; one call fails.
const demo = `from concurrent.futures import ThreadPoolExecutor

from refly_tools.demo import Demo

cities = Demo.list_cities()["data"]["cities"]

def warmest(city):
    wait(ms=300 * len(city["name"]))
    days = get_weather(city["name"], days=5)["forecast"]
    return max(day["celsius"] for day in days), city["name"]

with ThreadPoolExecutor(4) as pool:
    for celsius, name in sorted(pool.map(warmest, cities), reverse=True):
        print(f"{name:<10} {celsius:5.1f} °C")

print(Demo.fail()["error"])
`

func (p *Pages) playground(v *pages.Visit) (pages.Answer, error) {
	view := playgroundView{Job: job{Language: "python"}}
	query := v.R.URL.Query()
	if q := query.Get("toolset"); q != "" {
		view.Job.Toolsets = []string{q}
	}
	if from := query.Get("run"); from != "" {
		version, err := strconv.Atoi(query.Get("version"))
		if err != nil {
			version = 0
		}
		one, err := find(v, from, version, query.Get("from"))
		if err != nil {
			return pages.Answer{}, err
		}
		view.Job = job{Code: one.Code, Language: one.Language, Toolsets: one.Toolsets, CanvasID: one.CanvasID, Timeout: one.TimeoutMS}
	}
	return p.showPlayground(v, view, http.StatusOK)
}

func (p *Pages) showPlayground(v *pages.Visit, view playgroundView, status int) (pages.Answer, error) {
	view.Languages, view.Demo = []string{"python", "bash", "javascript", "typescript"}, demo
	var canvases list[canvas]
	if err := read(v, "/v1/canvas/list", nil, &canvases); err != nil {
		return pages.Answer{}, err
	}
	view.Canvases = canvases.Items
	if view.Job.Timeout > 0 {
		view.Seconds = strconv.FormatInt((view.Job.Timeout+999)/1000, 10)
	}
	return pages.Answer{Title: "Playground", Template: "playground", Data: view, Status: status}, nil
}

func (p *Pages) execute(v *pages.Visit) (pages.Answer, error) {
	f := v.R.PostFormValue
	j := job{
		Code: strings.ReplaceAll(f("code"), "\r\n", "\n"), Language: f("language"), CanvasID: f("canvas"), Title: f("title"), Background: true,
		Toolsets: strings.FieldsFunc(f("toolsets"), func(r rune) bool { return r == ',' || r == ' ' }),
	}
	if text := f("seconds"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil || seconds < 1 {
			return p.showPlayground(v, playgroundView{Job: j, Problem: &pages.Problem{Message: "The time limit is not a number of seconds.", Detail: "Write a whole number, or leave it empty."}}, http.StatusBadRequest)
		}
		j.Timeout = seconds * 1000
	}
	a, err := p.start(v, j)
	if said, ok := pages.ProblemOf(err); ok && said.Status != http.StatusUnauthorized {
		return p.showPlayground(v, playgroundView{Job: j, Problem: &said}, said.Status)
	}
	return a, err
}

// start runs a program and goes to its run.
func (p *Pages) start(v *pages.Visit, j job) (pages.Answer, error) {
	var started struct{ ResultID string }
	if err := send(v, "/v1/sandbox/execute", j, &started); err != nil {
		return pages.Answer{}, err
	}
	return pages.Answer{To: "/runs/" + url.PathEscape(started.ResultID)}, nil
}

func (p *Pages) ask(v *pages.Visit) (pages.Answer, error) {
	question := strings.TrimSpace(v.R.PostFormValue("question"))
	var started struct{ ResultID string }
	err := send(v, "/v1/skill/invoke", map[string]any{"query": question}, &started)
	if said, ok := pages.ProblemOf(err); ok && said.Status != http.StatusUnauthorized {
		return p.showPlayground(v, playgroundView{Question: question, Job: job{Language: "python"}, Problem: &said}, said.Status)
	}
	return pages.Answer{To: "/runs/" + url.PathEscape(started.ResultID)}, err
}
