// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/tool/approval"
)

const (
	tenantPairs  = 100 // conversations of each tenant
	tenantsBusy  = 8   // pairs at a time
	tenantSecret = "kept-by-"
)

// tenant is a user with tools, MCP servers and a secret of its own. All of these hold
// its name.
type tenant struct {
	s              *instance
	name, uid, key string

	mu    sync.Mutex
	texts []string // what its conversations were answered
	files []string
	kept  []string // stored responses
}

// Two tenants talk at once in every form of every vendor. Nothing that one of them is
// answered, lists or finds stored holds an id, a tool, a file or a result of the other;
// and an id of the other's is refused as one that there never was.
func TestTenantsInEveryFormAtOnce(t *testing.T) {
	testenv.Slow(t, "200 conversations with programs")
	t.Parallel()
	script, err := scripted.Parse([]byte(tenantScript("alder") + tenantScript("birch")))
	require.NoError(t, err)
	for _, d := range databasetest.Both() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			model := scripted.New(script)
			upstream := httptest.NewServer(model)
			t.Cleanup(upstream.Close)
			s := serve(t, databasetest.URL(t, d), "MODEL_NAME=scripted", "MODEL_BASE_URL="+upstream.URL, "MODEL_API_KEY=none", "MODEL_INPUT_PRICE=300", "MODEL_OUTPUT_PRICE=1200", "LOG_LEVEL=warn")
			both := [2]*tenant{s.tenant("alder"), s.tenant("birch")}
			require.NoError(t, talkInPairs(t.Context(), both))
			for i, one := range both {
				one.list()
				one.sawNothingOf(t, both[1-i])
			}
			require.Equal(t, 2*2*tenantPairs, len(model.Requests()), "each conversation asks twice, and no attempt does") //nolint:testifylint // they are too long to print
			for _, r := range model.Requests() {
				require.False(t, strings.Contains(string(r), "alder") && strings.Contains(string(r), "birch"), "%s", r)
			}
		})
	}
}

// talkInPairs has each tenant have its conversations, beside one of the other's in the
// same form, whose ids it tries in between.
func talkInPairs(ctx context.Context, both [2]*tenant) error {
	var work sync.WaitGroup
	busy := make(chan struct{}, tenantsBusy)
	failed := make([]error, tenantPairs)
	for n := range tenantPairs {
		work.Go(func() {
			busy <- struct{}{}
			defer func() { <-busy }()
			pair := [2]*tenantTalk{both[0].talk(n), both[1].talk(n)}
			for _, step := range []func(one, other *tenantTalk) error{(*tenantTalk).begins, (*tenantTalk).triesCalls, (*tenantTalk).answers, (*tenantTalk).triesApproval, (*tenantTalk).ends} {
				if ctx.Err() != nil || failed[n] != nil {
					return
				}
				failed[n] = atOnce(func() error { return step(pair[0], pair[1]) }, func() error { return step(pair[1], pair[0]) })
			}
		})
	}
	work.Wait()
	return errors.Join(failed...)
}

func atOnce(one, other func() error) error {
	var work sync.WaitGroup
	var first, second error
	work.Go(func() { first = one() })
	work.Go(func() { second = other() })
	work.Wait()
	return errors.Join(first, second)
}

// tenantScript is what the model says to a tenant: a program that calls a function of
// its client's, a server of its own, one of which others have another by the same name,
// and, unless no client could be asked, one that a person has to allow.
func tenantScript(name string) string {
	head := ""
	if name == "alder" {
		head = "name: tenants\nturns:\n"
	}
	program := `            code: |
              mine = await NAME_order(id=1)
              print(mine, NAMEserver__peek(), notes__peek())
              open("NAME.txt", "w").write(str(mine))
`
	asks := program + `              print(gate__peek())
              import os
              print(sorted(os.listdir()))
`
	turns := `
  - on: "NAME plain;"
    output:
      - call:
          name: run_code
          arguments:
` + program + `  - expect: [kept-by-NAME-client, kept-by-NAME-server, kept-by-NAME-notes]
    output: [{text: "Done for NAME."}]
  - on: "NAME asks;"
    output:
      - call:
          name: run_code
          arguments:
` + asks + `  - expect: [kept-by-NAME-client, kept-by-NAME-server, kept-by-NAME-notes, kept-by-NAME-gate, NAME.txt]
    output: [{text: "Done for NAME."}]
`
	return head + strings.ReplaceAll(turns, "NAME", name)
}

// tenant makes a user and the MCP servers that are its own.
func (s *instance) tenant(name string) *tenant {
	s.t.Helper()
	u, err := s.app.Accounts.Service.CreateUser(s.t.Context(), name, "")
	require.NoError(s.t, err)
	_, key, err := s.app.Accounts.Service.CreateKey(s.t.Context(), actor.Actor{UID: u.UID, Scope: actor.Full}, "test", 0)
	require.NoError(s.t, err)
	for _, called := range []string{name + "server", "notes", "gate"} {
		of := hubtest.New()
		of.Add("peek", `{"type":"object"}`, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return hubtest.Words(tenantSecret + name + "-" + strings.TrimPrefix(called, name)), nil
		})
		at := hubtest.Listen(s.t, called, of.Handler())
		require.NoError(s.t, s.app.Servers.Operators().Add(s.t.Context(), u.UID, server.Spec{Name: called, Transport: server.HTTP, URL: at.URL, Egress: at.Egress}))
	}
	require.NoError(s.t, s.app.Approvals.Service.SetRule(s.t.Context(), approval.Rule{Toolset: "gate", Level: approval.Always}))
	return &tenant{s: s, name: name, uid: u.UID, key: key.Reveal()}
}

// request makes one request of the tenant's.
func (o *tenant) request(method, path, body string, headers ...string) (status int, text string, err error) {
	resp, err := o.s.do(o.key, method, path, body, body != "", headers)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// asks makes a request that has to work, and keeps the answer.
func (o *tenant) asks(method, path string, body, into any) error {
	text, ok := body.(string)
	if !ok && body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = string(raw)
	}
	var headers []string
	if ok && strings.HasPrefix(text, "--") {
		headers = []string{"Content-Type", "multipart/form-data; boundary=tenants"}
	}
	status, answer, err := o.request(method, path, text, headers...)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("%s %s: %d %w: %s, asked with %s", method, path, status, errors.Join(err, errUnwanted), answer, text)
	}
	o.mu.Lock()
	o.texts = append(o.texts, answer)
	o.mu.Unlock()
	if into == nil {
		return nil
	}
	return json.Unmarshal([]byte(answer), into)
}

var errUnwanted = errors.New("another answer was wanted")

// list looks at all that a tenant can list, and at all that is stored of it.
func (o *tenant) list() {
	o.s.t.Helper()
	for _, path := range []string{
		"/anthropic/v1/files?limit=1000", "/anthropic/v1/models", "/v1/models", "/v1/mcp/servers", "/v1/action/list", "/v1/tool/approvals?state=all", "/v1/credit/usage", "/v1/canvas/list", "/v1/drive/file/list",
	} {
		require.NoError(o.s.t, o.asks("GET", path, nil, nil))
	}
	for _, id := range o.kept {
		require.NoError(o.s.t, o.asks("GET", "/v1/responses/"+id, nil, nil))
		require.NoError(o.s.t, o.asks("GET", "/v1/responses/"+id+"/input_items", nil, nil))
	}
	for _, id := range o.files {
		require.NoError(o.s.t, o.asks("GET", "/anthropic/v1/files/"+id, nil, nil))
		require.NoError(o.s.t, o.asks("GET", "/anthropic/v1/files/"+id+"/content", nil, nil))
	}
	require.Len(o.s.t, o.kept, 3*tenantPairs/4, "three of each stored conversation")
	require.NotEmpty(o.s.t, o.files)
}

// idsOf are what answers name; those that the scripted model makes are the same for
// everybody.
var idsOf = regexp.MustCompile(`\b(?:resp|msg|rs|cm|cmo|fc|fco|call|mcpr|chatcmpl|container|toolu|srvtoolu|file|ar|cv|ci)[_-](?:portico_)?([A-Za-z0-9:_-]{8,})`)

func (o *tenant) ids() map[string]bool {
	ids := map[string]bool{}
	for _, text := range o.texts {
		for _, found := range idsOf.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(found[1], "scripted") && strings.ContainsAny(found[1], "0123456789") {
				ids[found[1]] = true
			}
		}
	}
	return ids
}

// sawNothingOf searches all that a tenant was answered for what is the other's.
func (o *tenant) sawNothingOf(t *testing.T, other *tenant) {
	t.Helper()
	whole := strings.Join(o.texts, "\n")
	require.Contains(t, whole, tenantSecret+o.name, "what it did itself, it sees")
	for _, marker := range []string{other.name, other.uid} {
		at := strings.Index(whole, marker)
		require.Negative(t, at, "%s is told of %s: %.400s", o.name, other.name, whole[max(0, at-100):])
	}
	own, theirs := o.ids(), other.ids()
	require.Greater(t, len(own), 3*tenantPairs)
	for id := range theirs {
		require.False(t, own[id], "%s has an id of %s: %s", o.name, other.name, id)
	}
}

// attempt is a request with an id of somebody else's.
type attempt struct {
	name, method, path string
	body               any // IDENTIFIER stands for the id, also in the path
	id                 string
}

// requestIDs differ from request to request.
var requestIDs = regexp.MustCompile(`"request_id":"[^"]*"`)

// tries makes attempts with ids of the other's, and the same with ids that there never
// were: the answers are refusals, and equal but for the ids.
func (o *tenant) tries(other *tenant, attempts []attempt) error {
	for _, a := range attempts {
		if a.id == "" {
			return fmt.Errorf("%s: %w: there is no id", a.name, errUnwanted)
		}
		body := ""
		if a.body != nil {
			raw, err := json.Marshal(a.body)
			if err != nil {
				return err
			}
			body = string(raw)
		}
		var seen [2]string
		for i, id := range []string{a.id, never(a.id)} {
			status, text, err := o.request(a.method, strings.ReplaceAll(a.path, "IDENTIFIER", id), strings.ReplaceAll(body, "IDENTIFIER", id))
			asked := strings.Contains(text, "The model does not answer.") // it was not refused before
			if err != nil || asked || status != http.StatusBadRequest && status != http.StatusNotFound {
				return fmt.Errorf("%s with %s: %d %w: %s, asked with %s", a.name, id, status, errors.Join(err, errUnwanted), text, body)
			}
			seen[i] = fmt.Sprint(status, requestIDs.ReplaceAllString(strings.ReplaceAll(text, bare(id), "IDENTIFIER"), ""))
			if strings.Contains(text, tenantSecret) || !strings.Contains(body, other.name) && strings.Contains(text, other.name) {
				return fmt.Errorf("%s tells of %s: %w: %s", a.name, other.name, errUnwanted, text)
			}
		}
		if seen[0] != seen[1] {
			return fmt.Errorf("%s: %w: of the other's id: %s, of none: %s", a.name, errUnwanted, seen[0], seen[1])
		}
	}
	return nil
}

// bare is an id without what its kind puts before it.
func bare(id string) string {
	if found := idsOf.FindStringSubmatch(id); found != nil {
		return found[1]
	}
	return id
}

// never is an id of the same form that nobody has.
func never(id string) string {
	text := []byte(id)
	for i := len(text) - 8; i < len(text); i++ {
		if at := strings.IndexByte(digits, text[i]); at >= 0 {
			text[i] = digits[(at+1)%len(digits)]
		} else if text[i] >= 'a' && text[i] <= 'z' {
			text[i] = 'a' + (text[i]-'a'+1)%26
		} else if text[i] >= 'A' && text[i] <= 'Z' {
			text[i] = 'A' + (text[i]-'A'+1)%26
		}
	}
	return string(text)
}

const digits = "234567"

func (o *tenant) talk(n int) *tenantTalk {
	forms := []vendorForm{&storedForm{}, &historyForm{}, &chatForm{}, &messagesForm{}}
	return &tenantTalk{tenant: o, n: n, form: forms[n%len(forms)], streams: n/len(forms)%2 == 1}
}

func (o *tenant) keeps(list *[]string, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*list = append(*list, id)
}
