// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// numbers are those of a server that has done some of everything.
func numbers(t *testing.T) string {
	t.Helper()
	s := serve(t, databasetest.URL(t, database.SQLite))
	require.Equal(t, 200, s.send(s.key, http.MethodPost, "/v1/exec/programmatic", `{"code":"print(1)"}`).status)
	for _, city := range []string{`"Oslo"`, `7`} {
		s.send(s.key, http.MethodPost, "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":`+city+`}}`)
	}
	s.send(s.key, http.MethodPost, "/v1/tool/execute", `{"toolsetKey":"invented-toolset","toolName":"invented_tool","arguments":{}}`)
	s.send(s.key, http.MethodGet, "/invented/path", nil)
	return s.send("", http.MethodGet, "/metrics", nil).raw
}

// promtool runs Prometheus' own tool in the folder of the documents.
func promtool(t *testing.T, arguments ...string) string {
	t.Helper()
	program := testenv.Need(t, "PORTICO_PROMTOOL", "tools/promtool.sh prints it")
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Dir = filepath.Join(root, "docs")
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// rule is an alert, or in a file that a test writes a recorded expression.
type rule struct {
	Alert       string            `yaml:"alert,omitempty"`
	Record      string            `yaml:"record,omitempty"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

// expressions are those of the dashboard, with the names that Grafana puts in.
func expressions(t *testing.T) (list []string) {
	t.Helper()
	var dashboard struct {
		Title         string `json:"title"`
		UID           string `json:"uid"`
		SchemaVersion int    `json:"schemaVersion"`
		Panels        []struct {
			ID         int            `json:"id"`
			Type       string         `json:"type"`
			Title      string         `json:"title"`
			Datasource map[string]any `json:"datasource"`
			GridPos    struct {
				H, W, X, Y int
			} `json:"gridPos"`
			Targets []struct {
				RefID string `json:"refId"`
				Expr  string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal([]byte(guide(t, "docs/grafana.json")), &dashboard))
	require.NotEmpty(t, dashboard.Title)
	require.NotEmpty(t, dashboard.UID)
	require.Positive(t, dashboard.SchemaVersion)
	seen, places := map[int]bool{}, map[string]bool{}
	for _, p := range dashboard.Panels {
		at := fmt.Sprint(p.GridPos.X, p.GridPos.Y)
		require.False(t, seen[p.ID] || places[at], "%s: its id or place is another panel's", p.Title)
		seen[p.ID], places[at] = true, true
		require.True(t, p.GridPos.W > 0 && p.GridPos.H > 0 && p.GridPos.X+p.GridPos.W <= 24, p.Title)
		require.NotEmpty(t, p.Type)
		require.Equal(t, "prometheus", p.Datasource["type"])
		refs := map[string]bool{}
		for _, target := range p.Targets {
			require.False(t, target.RefID == "" || refs[target.RefID], p.Title)
			refs[target.RefID] = true
			list = append(list, strings.NewReplacer("$__rate_interval", "5m", `"$job"`, `".*"`).Replace(target.Expr))
		}
	}
	return list
}

// Grafana's own library loads the dashboard: nothing that it needs is missing, and each
// panel asks Prometheus.
func TestGrafanaTakesTheDashboard(t *testing.T) {
	t.Parallel()
	plugins.RegisterDefaultPlugins()
	text := []byte(guide(t, "docs/grafana.json"))
	var d, strict dashboard.Dashboard //nolint:staticcheck // the form that Grafana imports in every version
	require.NoError(t, json.Unmarshal(text, &d))
	require.NoError(t, d.Validate())
	if err := strict.UnmarshalJSONStrict(text); err != nil { // one without words is about defaults of panels
		require.Empty(t, err.Error())
	}
	require.NotEmpty(t, d.Panels)
	for _, p := range d.Panels {
		require.NotNil(t, p.Panel, "no row")
		require.NotEmpty(t, p.Panel.Targets, *p.Panel.Title)
		for _, target := range p.Panel.Targets {
			require.IsType(t, &prometheus.Dataquery{}, target, *p.Panel.Title)
		}
	}
}

// Prometheus takes the alerts; each fires on what it is about and not otherwise,
// says what to do, and is about numbers that a server has. Prometheus takes every
// expression of the dashboard.
func TestAlertsHold(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	promtool(t, "check", "rules", "alerts.yaml")
	promtool(t, "test", "rules", "alerts.test.yaml")
	var alerts ruleFile
	require.NoError(t, yaml.Unmarshal([]byte(guide(t, "docs/alerts.yaml")), &alerts))
	require.Len(t, alerts.Groups, 1)
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(guide(t, "docs/alerts.test.yaml")), &tests))
	tried := map[string][2]bool{} // what fires, and what does not
	for _, test := range tests.Tests {
		for _, a := range test.Alerts {
			was := tried[a.Name]
			tried[a.Name] = [2]bool{was[0] || len(a.Expected) > 0, was[1] || len(a.Expected) == 0}
		}
	}
	page, variables := numbers(t), guide(t, ".env.example")
	for _, r := range alerts.Groups[0].Rules {
		require.Equal(t, [2]bool{true, true}, tried[r.Alert], "%s is not tried", r.Alert)
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.Regexp(t, `^[A-Z].{20,}\.$`, r.Annotations["summary"], r.Alert)
		require.Regexp(t, `^[A-Z].{40,}\.$`, r.Annotations["runbook"], r.Alert)
		for _, setting := range regexp.MustCompile(`\b[A-Z]+_[A-Z_]+\b`).FindAllString(r.Annotations["runbook"], -1) {
			require.Contains(t, variables, "#"+setting+"=", r.Alert)
		}
		for _, name := range regexp.MustCompile(`\bportico_[a-z_]+`).FindAllString(r.Expr, -1) {
			name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			require.True(t, strings.Contains(page, "# HELP "+name+" ") || strings.HasPrefix(name, "portico_redis_"), "%s: there is no %s", r.Alert, name)
			for _, label := range labels(r.Expr) {
				require.Regexp(t, `(?m)^portico_[a-z_]+\{([^}]*,)?`+label+`="`, page, "%s: there is no label %s", r.Alert, label)
			}
		}
	}
	recorded := ruleFile{Groups: []ruleGroup{{Name: "dashboard"}}}
	for n, e := range expressions(t) {
		recorded.Groups[0].Rules = append(recorded.Groups[0].Rules, rule{Record: fmt.Sprintf("panel:%d", n), Expr: e})
	}
	text, err := yaml.Marshal(recorded)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "dashboard.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	require.Contains(t, promtool(t, "check", "rules", path), fmt.Sprintf("%d rules found", len(recorded.Groups[0].Rules)))
}

// Labels have short lists of values: nothing that users name becomes one, so that
// no user can fill the memory of Prometheus, or is named there.
func TestLabelsAreBounded(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	page := numbers(t)
	known := map[string]*regexp.Regexp{
		"method": regexp.MustCompile(`^[A-Z]*$`), "route": regexp.MustCompile(`^(/[a-zA-Z0-9_:.*-]*)*$`), "status": regexp.MustCompile(`^\d{3}$`), "le": regexp.MustCompile(`^[\d.e+-]+$|^\+Inf$`),
		"kind": regexp.MustCompile(`^[a-z_]+$`), "outcome": regexp.MustCompile(`^(success|failure|timeout|unavailable|fault|left)$`),
		"purpose": regexp.MustCompile(`^(tool|model|embedding)$`), "result": regexp.MustCompile(`^(success|refused|failing|no_answer|cancelled|skipped)$`),
		"cause": regexp.MustCompile(`^[a-z_]+$`), "table": regexp.MustCompile(`^[a-z_]+$`),
	}
	seen := map[string]bool{}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "portico_") {
			continue
		}
		for _, m := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(line, -1) {
			require.NotNil(t, known[m[1]], "%s is a label of %s: is its list of values short?", m[1], line)
			require.Regexp(t, known[m[1]], m[2], line)
			seen[m[1]] = true
		}
	}
	for label := range known {
		require.True(t, seen[label], "no number has the label %s", label)
	}
	for _, line := range []string{`portico_calls_total{kind="config_based",outcome="success"} 1`, `portico_calls_total{kind="unknown",outcome="failure"} 1`, `portico_upstream_requests_total{purpose="tool",result="success"} 1`} {
		require.Contains(t, page, line)
	}
	for _, foreign := range []string{"invented", "demo", "get_weather", "127.0.0.1", "Oslo", "u-"} {
		require.NotContains(t, page, foreign)
	}
}

// What a process is scaled by counts the programs that wait for a turn, too.
func TestSaturationCountsWhatWaits(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "SANDBOX_MAX_CONCURRENT=1", "SANDBOX_MAX_PER_USER=1", "SANDBOX_MAX_QUEUE=4", "SANDBOX_MAX_QUEUE_PER_USER=4")
	saturation := func() string {
		page := s.send("", http.MethodGet, "/metrics", nil).raw
		return regexp.MustCompile(`(?m)^portico_sandbox_saturation (.*)$`).FindStringSubmatch(page)[1]
	}
	require.Equal(t, "0", saturation())
	var programs sync.WaitGroup
	for range 2 {
		programs.Go(func() {
			answer, err := s.do(s.key, http.MethodPost, "/v1/sandbox/execute", `{"language":"python","code":"import time; time.sleep(2)"}`, true, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
				t.Error(answer.Status)
			}
		})
	}
	require.Eventually(t, func() bool { return saturation() == "2" }, time.Minute, 10*time.Millisecond)
	programs.Wait()
	require.Equal(t, "0", saturation())
}
