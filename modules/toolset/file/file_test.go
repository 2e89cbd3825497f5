package file_test

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/connector/composio"
	"github.com/portico-run/portico/modules/connector/rest"
	"github.com/portico-run/portico/modules/connector/vendors"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// shelf keeps what is stored, and the rates of providers.
type shelf struct {
	stored []store.Spec
	rates  *price.Rates
	err    error
}

func (*shelf) CheckKey(context.Context) error { return nil }

func (s *shelf) Store(_ context.Context, specs []store.Spec) (store.Report, error) {
	s.stored = append(s.stored, specs...)
	return store.Report{Unchanged: []string{"all"}}, s.err
}

func (s *shelf) Rates(context.Context, string) (*price.Rates, error) { return s.rates, s.err }

// kinds are those of the server.
func kinds(s *shelf) toolset.Kinds {
	clients, err := vendors.New(vendors.Deps{})
	if err != nil {
		panic(err)
	}
	pricer := price.NewPricer(120 * money.Credit)
	c := composio.New(composio.Deps{Client: composio.NewClient(composio.ClientDeps{}), Pricer: pricer, Rates: s})
	return toolset.NewKinds(rest.New(rest.Deps{Pricer: pricer}), rest.OAuth{Connector: rest.New(rest.Deps{Pricer: pricer})}, clients, composio.OAuth{Connector: c}, composio.APIKey{Connector: c})
}

func service(s *shelf) *file.Service {
	return file.New(file.Deps{Inventory: s, Pricer: price.NewPricer(120 * money.Credit), Kinds: kinds(s), Variables: map[string]string{
		"WEATHER_URL": "http://127.0.0.1:9", "WEATHER_KEY": "sk-weather",
	}})
}

func files(t testing.TB, names ...string) []file.File {
	t.Helper()
	var out []file.File
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		out = append(out, file.File{Name: filepath.Base(name), Content: content})
	}
	return out
}

const (
	weather = "../testdata/weather.yaml"
	bad     = "testdata/bad.yaml"
)

func TestApplyReportsEveryProblemWithItsLineAndStoresNothing(t *testing.T) {
	t.Parallel()
	var s shelf
	_, err := service(&s).Apply(t.Context(), append(files(t, weather, bad),
		file.File{Name: "twice.yaml", Content: []byte("key: weather\nname: W\nbilling: 0\nmethods: [{name: a, endpoint: /a}]\n")},
		file.File{Name: "syntax.yaml", Content: []byte("key: [unclosed\n")}))
	require.Error(t, err)
	path := filepath.Join("testdata", "bad.txt")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(err.Error()+"\n"), 0o644))
	}
	want, readErr := os.ReadFile(path)
	require.NoError(t, readErr)
	require.Equal(t, string(want), err.Error()+"\n")
	require.Empty(t, s.stored)
}

func FuzzApply(f *testing.F) {
	for _, one := range files(f, weather, bad) {
		f.Add(one.Content)
	}
	f.Add([]byte("a: &a [*a, *a]\n"))
	f.Add([]byte("key: x\nmethods: [{request: {<<: {a: 1}, 1: 2, d: 2020-01-01, f: .inf}}]\n"))
	f.Fuzz(func(_ *testing.T, content []byte) {
		_ = file.CheckContent(kinds(&shelf{}), content) // must not panic or hang
	})
}

// whole says everything that a file can say.
const whole = `
key: tasks
name: Tasks
domain: https://tasks.example.com/
labels: {en: Tasks}
descriptions: {en: Does tasks}
authType: credentials
enabled: false
global: false
credential: {type: basic, username: anna, value: "${WEATHER_KEY}"}
egress: {allow: [10.1.2.3/8]}
billing: {start: 1.5}
authPatterns: [{type: credentials, credentialItems: [{key: apiKey, inputMode: text, required: true}]}]
configItems: [{key: region, inputMode: select, options: [{value: eu}]}]
config: {region: "${WEATHER_URL}", retries: 3}
methods:
  - name: start
    version: 2
    description: Starts a task
    endpoint: /tasks/{kind}
    method: put
    request: {type: object, properties: {zeta: {type: string}, kind: {type: string, default: 2020-01-01}}}
    response: {type: object}
    allowedCallers: [code, direct, code]
    adapter:
      headers: {X-Key: "${apiKey}", X-Url: "${WEATHER_URL}"}
      timeout: 5000
      maxRetries: 2
      queryParameters: [zeta]
      idempotent: true
      polling: {statusUrl: "/tasks/{id}", statusBody: {b: 1, a: [null, true]}, maxWaitSeconds: 9}
---
# a document without content is none
---
key: jina
name: Jina
`

func TestAFileBecomesWhatIsStored(t *testing.T) {
	t.Parallel()
	var s shelf
	report, err := service(&s).Apply(t.Context(), []file.File{{Name: "whole.yaml", Content: []byte(whole)}})
	require.NoError(t, err)
	require.Equal(t, []string{"all"}, report.Unchanged)
	require.Len(t, s.stored, 2)
	got, retries := s.stored[0], 2
	require.Equal(t, &toolset.Credential{Type: toolset.Basic, Username: "anna", Value: "sk-weather"}, got.Credential)
	require.Equal(t, "sk-weather", got.Credential.Value.Reveal())
	require.Equal(t, store.Spec{
		Key: "tasks", Name: "Tasks", Domain: "https://tasks.example.com", Type: toolset.TypeRegular, AuthType: toolset.AuthCredentials,
		Labels: map[string]string{"en": "Tasks"}, Descriptions: map[string]string{"en": "Does tasks"},
		Credential: got.Credential, Egress: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Prices: []byte(`{"start":1.5}`),
		Patterns: []install.Pattern{{Type: "credentials", CredentialItems: []install.Item{{Key: "apiKey", InputMode: "text", Required: true}}}},
		Items:    []install.Item{{Key: "region", InputMode: "select", Options: []install.Option{{Value: "eu"}}}},
		Config:   map[string]any{"region": "http://127.0.0.1:9", "retries": 3.0},
		Methods: []toolset.Method{{
			Name: "start", Version: 2, Description: "Starts a task", Endpoint: "/tasks/{kind}", HTTPMethod: "PUT", AllowedCallers: "code,direct",
			Request:  []byte(`{"type":"object","properties":{"zeta":{"type":"string"},"kind":{"type":"string","default":"2020-01-01"}}}`),
			Response: []byte(`{"type":"object"}`),
			Adapter: toolset.Adapter{
				Headers: map[string]string{"X-Key": "${apiKey}", "X-Url": "http://127.0.0.1:9"}, TimeoutMS: 5000, MaxRetries: &retries,
				QueryParameters: []string{"zeta"}, Idempotent: true,
				Polling: &toolset.Polling{StatusURL: "/tasks/{id}", StatusBody: []byte(`{"b":1,"a":[null,true]}`), MaxWaitSeconds: 9},
			},
		}},
	}, got)
	require.Equal(t, store.Spec{Key: "jina", Name: "Jina", Type: toolset.TypeRegular, AuthType: toolset.AuthConfigBased, Enabled: true, Global: true}, s.stored[1])
}

// What a file must not say, each with the beginning of what is answered. {} is
// a toolset with nothing wrong besides.
func TestWhatAFileMustNotSay(t *testing.T) {
	t.Parallel()
	const ok = "key: t, name: T, billing: 0, "
	const method = "methods: [{name: m, endpoint: 'https://a.test'}], "
	const code = "credential: {type: authorizationCode, username: a, name: 'https://a.test/token', authorize: 'https://a.test/agree'}"
	for text, want := range map[string]string{
		`[a, list]`: "f:1: must be a mapping with the keys key, name",
		`{name: T, billing: 0, ` + method + `key: -x}`:                                                                                             `f:1: key "-x" must be up to 64 letters`,
		`{key: t, name: "a\0b", billing: 0, ` + method + `}`:                                                                                       "f:1: must not hold NUL",
		`{` + ok + method + `type: external_oauth}`:                                                                                                "f:1: the tools of a toolset of type external_oauth are listed by its provider, not here",
		`{key: g, name: G, type: external_apikey, billing: x}`:                                                                                     "f:1: billing: ",
		`{` + ok + method + `authType: oauth}`:                                                                                                     `f:1: authType "oauth" does not go with type "regular"`,
		`{key: g, name: G, type: external_oauth, authType: credentials}`:                                                                           `f:1: authType "credentials" does not go with type "external_oauth"`,
		`{key: jina, name: J, billing: 0}`:                                                                                                         "f:1: the tools of jina are part of this server, and so is what they cost",
		`{key: t, name: T, ` + method + `}`:                                                                                                        "f:1: billing is missing: give a number for all methods, or a price for each; 0 is free",
		`{` + ok + method + `credential: {type: bearer}}`:                                                                                          "f:1: the credential has no value",
		`{` + ok + method + `credential: {type: basic, value: x}}`:                                                                                 "f:1: a credential of type basic needs a username",
		`{` + ok + method + `credential: {type: volcengine, username: a, name: cn, value: x}}`:                                                     "f:1: a credential of type volcengine needs a name such as cn-north-1/cv",
		`{` + ok + method + `type: oauth}`:                                                                                                         "f:1: a toolset of the type oauth has one credential of type authorizationCode",
		`{` + ok + method + code + `}`:                                                                                                             "f:1: a toolset with a credential of type authorizationCode has the type oauth",
		`{` + ok + method + `type: oauth, global: false, ` + code + `}`:                                                                            "f:1: a toolset of the type oauth is everybody's",
		`{` + ok + method + `type: oauth, authPatterns: [{type: oauth}], ` + code + `}`:                                                            "f:1: a toolset of the type oauth has no authPatterns",
		`{` + ok + method + `type: oauth, ` + strings.Replace(code, "https://a.test/token", "http://a.test", 1) + `}`:                              "f:1: tokens of users are sent by https only",
		`{` + ok + method + `type: oauth, ` + strings.Replace(code, "authorize", "scopes", 1) + `}`:                                                "f:1: a credential of type authorizationCode needs with authorize the URL where users agree",
		`{` + ok + method + `credential: {type: bearer, value: x, authorize: y}}`:                                                                  "f:1: a credential of type bearer has no authorize",
		`{` + ok + method + `credential: {type: clientCredentials, username: a, value: x}}`:                                                        "f:1: a credential of type clientCredentials needs as its name the URL that gives tokens",
		`{` + ok + method + `credential: {value: "a\nb"}}`:                                                                                         "f:1: the credential holds a line break",
		`{` + ok + method + `credential: {value: x, colour: red}}`:                                                                                 `f:1: unknown key "colour"; known are type, name, username, value`,
		`{` + ok + method + `egress: {deny: [a]}}`:                                                                                                 `f:1: unknown key "deny"; known are allow`,
		`{` + ok + method + `authPatterns: [{type: magic}]}`:                                                                                       `f:1: authPatterns: type "magic" must be credentials, oauth or config_based`,
		`{` + ok + method + `authPatterns: [{type: oauth, colour: red}]}`:                                                                          `f:1: authPatterns: json: unknown field "colour"`,
		`{` + ok + method + `configItems: [{inputMode: text}]}`:                                                                                    "f:1: an item has no key",
		`{` + ok + method + `configItems: [{key: a, inputMode: magic}]}`:                                                                           `f:1: item a: inputMode "magic" is not one of text, textarea`,
		`{` + ok + method + `configItems: [{key: a, inputMode: radio}]}`:                                                                           "f:1: item a has no options",
		`{` + ok + method + `config: {a: "${NOBODY}"}}`:                                                                                            "f:1: the variable ${NOBODY} is not set",
		`{` + ok + `methods: [{name: "a b", endpoint: 'https://a.test'}]}`:                                                                         `f:1: method name "a b" must be up to 128 letters`,
		`{` + ok + `methods: [{name: m, endpoint: 'https://u:p@a.test'}]}`:                                                                         "must be an http or https URL without credentials, or a path that begins with /",
		`{` + ok + `methods: [{name: m, version: -1, endpoint: 'https://a.test'}]}`:                                                                `f:1: the version of "m" must be 1 to 1000000000`,
		`{` + ok + `methods: [{name: m, endpoint: 'https://a.test', adapter: {timeout: -1}}]}`:                                                     `f:1: the timeout of "m" is negative`,
		`{` + ok + `methods: [{name: m, endpoint: 'https://a.test', adapter: {headers: {"a b": x}}}]}`:                                             `f:1: header "a b" of "m" cannot be sent`,
		`{` + ok + `methods: [{name: m, endpoint: 'https://a.test', adapter: {headers: {a: "x\ny"}}}]}`:                                            `f:1: header "a" of "m" cannot be sent`,
		`{` + ok + `methods: [{name: m, endpoint: 'https://a.test', adapter: {polling: {statusUrl: 'ftp://{id}'}}}]}`:                              `must be a URL, or a path of the toolset's domain`,
		`{` + ok + `methods: [{name: m, endpoint: 'https://a.test', adapter: {polling: {statusUrl: 'http://a.test/{id}', intervalSeconds: -1}}}]}`: `f:1: polling of "m": a time is negative`,
		`{` + ok + `methods: [{name: m, endpoint: 'https://a.test', request: {<<: {a: 1}}}]}`:                                                      "f:1: request is not a valid JSON Schema: line 1: keys of a schema are plain names",
		`{` + ok + `methods: [{name: m, endpoint: 'https://a.test', request: {default: .inf}}]}`:                                                   "f:1: request is not a valid JSON Schema: line 1: .inf has no JSON form",
		`{` + ok + `methods: [{name: m, endpoint: 'https://a.test', request: {default: &a [*a]}}]}`:                                                "line 1: nested more than 100 levels deep",
		`{` + ok + `methods: [{name: m, endpoint: 'https://a.test', pricing: {rules: [], more: 1}}]}`:                                              `f:1: pricing of "m": json: unknown field "more"`,
		`{` + ok + `methods: [{name: m, endpoint: 'https://a.test', pricing: {rules: [{fieldPath: nowhere}]}}]}`:                                   `f:1: pricing of "m": `,
	} {
		err := file.CheckContent(kinds(&shelf{}), []byte(text))
		require.ErrorContains(t, err, want, text)
	}
	require.NoError(t, file.CheckContent(kinds(&shelf{}), []byte(`{`+ok+method+`}`)))
}

// Aliases of aliases grow without end: the form is measured while it is written.
func TestAliasesCannotGrowWithoutEnd(t *testing.T) {
	t.Parallel()
	text := "key: t\nname: T\nbilling: 0\nmethods:\n- name: m\n  endpoint: https://a.test\n  request:\n    type: object\n    a: &a [long long long long long long, long long long long long long]\n"
	before := "a"
	for _, next := range []string{"b", "c", "d", "e", "f", "g"} {
		text += "    " + next + ": &" + next + " [*" + before + ", *" + before + ", *" + before + ", *" + before + ", *" + before + ", *" + before + ", *" + before + ", *" + before + "]\n"
		before = next
	}
	require.ErrorContains(t, file.CheckContent(kinds(&shelf{}), []byte(text)), "larger than 1048576 bytes")
}

func TestLoadLeavesOutAnInvalidFileWhole(t *testing.T) {
	t.Parallel()
	var s shelf
	half := "{key: good, name: G, billing: 0, methods: [{name: m, endpoint: 'https://a.test'}]}\n---\n{key: half}\n"
	report, problems, err := service(&s).Load(t.Context(), append(files(t, weather), file.File{Name: "half.yaml", Content: []byte(half)},
		file.File{Name: "gone.yaml", Err: errors.New("no permission")}))
	require.NoError(t, err)
	require.NotEmpty(t, report)
	var keys []string
	for _, spec := range s.stored {
		keys = append(keys, spec.Key)
	}
	require.Equal(t, []string{"weather", "private"}, keys)
	require.Equal(t, "gone.yaml:1: the file cannot be read: no permission", problems[0].Error())
	require.Equal(t, "half.yaml", problems[1].File)

	stored := len(s.stored)
	checked, err := service(&s).Check(t.Context(), files(t, weather, bad))
	require.NoError(t, err)
	require.NotEmpty(t, checked)
	require.Len(t, s.stored, stored, "checking stores nothing")
}

// Prices by tiers need the rates of the provider; without them, or where they
// cannot be read, nothing is stored.
func TestRatesOfProviders(t *testing.T) {
	t.Parallel()
	provided := []file.File{{Name: "p.yaml", Content: []byte("{key: gmail, name: Gmail, type: external_oauth, billing: {_default: {tier: standard}}}")}}
	s := &shelf{}
	problems, err := service(s).Check(t.Context(), []file.File{{Name: "p.yaml", Content: []byte("{key: gmail, name: Gmail, type: external_oauth}")}})
	require.NoError(t, err)
	require.Empty(t, problems)
	problems, err = service(s).Check(t.Context(), provided)
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Error(), `p.yaml:1: toolset gmail: price of "_default": the provider has no rates`)
	s.rates = &price.Rates{Standard: money.Credit, Margin: money.Credit}
	problems, err = service(s).Check(t.Context(), provided)
	require.NoError(t, err)
	require.Empty(t, problems)

	s.err = errors.New("the database is away")
	_, _, err = service(s).Load(t.Context(), []file.File{{Name: "p.yaml", Content: []byte("{key: gmail, name: Gmail, type: external_oauth}")}})
	require.ErrorIs(t, err, s.err)
	require.Empty(t, s.stored)
}

func TestReadingAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a.yml", "c.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o700))
	read, err := file.Read(dir)
	require.NoError(t, err)
	require.Len(t, read, 3)
	require.Equal(t, filepath.Join(dir, "a.yml"), read[0].Name)
	require.Equal(t, "b.yaml", string(read[1].Content))
	require.Error(t, read[2].Err, "what cannot be read is said of the file")

	one, err := file.Read(filepath.Join(dir, "c.txt"))
	require.NoError(t, err)
	require.Equal(t, "c.txt", string(one[0].Content))
	_, err = file.Read(filepath.Join(dir, "nothing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// What is wrong with schemas that methods share is said where it stands.
func TestSharedSchemasAreChecked(t *testing.T) {
	t.Parallel()
	const head = "key: k\nname: K\ndomain: https://k.example.com\nbilling: 0\n"
	method := func(request string) string {
		return "methods:\n  - {name: m, endpoint: \"/{id}\", request: " + request + "}\n"
	}
	wide := "  L: {description: " + strings.Repeat("x", 200_000) + "}\n  W: {anyOf: [" + strings.Repeat(`{$ref: "#/schemas/L"}, `, 6) + "{}]}\n"
	for text, want := range map[string]string{
		"schemas:\n  A: {properties: {id: {type: string}}}\n" + method(`{$ref: "#/schemas/A"}`):             "",
		"schemas:\n  A: {properties: {id: {type: string}}}\n" + method(`{properties: {id: "#/schemas/A"}}`): "",
		"schemas:\n  A: {type: string}\n" + method(`{properties: {id: {$ref: "#/schemas/B"}}}`):             "k.yaml:8: request is not a valid JSON Schema: #/schemas/B refers to no schema",
		"schemas:\n  A: {type: string}\n" + method(`{properties: {id: "#/schemas/A"}}`):                     "k.yaml:8: request is not a valid JSON Schema: #/schemas/A/properties/id refers to no schema",
		"schemas:\n  A: {type: string}\n" + method(`{properties: {id: {$ref: "other.yaml#/A"}}}`):           "k.yaml:8: request is not a valid JSON Schema: ",
		"schemas:\n  A: {type: strange}\n" + method(`{properties: {id: {}}}`):                               "k.yaml:6: schema A is not a valid JSON Schema: type:",
		"schemas:\n  A: {not: {$ref: \"#/schemas/B\"}}\n" + method(`{properties: {id: {}}}`):                "k.yaml:6: schema A is not a valid JSON Schema: #/schemas/B refers to no schema",
		"schemas:\n  \"A/B\": {}\n" + method(`{properties: {id: {}}}`):                                      `k.yaml:6: schema name "A/B" must be`,
		"schemas:\n" + wide + method(`{properties: {id: {$ref: "#/schemas/W"}}}`):                           "larger than 1048576 bytes with the schemas that it refers to",
		"schemas:\n  A: {properties: {x: {type: string}}}\n" + method(`{$ref: "#/schemas/A"}`):              `{id} in the endpoint is no parameter of "m"`,
		method(`{properties: {id: {$ref: "#/schemas/A"}}}`):                                                 "k.yaml:6: request is not a valid JSON Schema: ",
		method(`{properties: {id: {$ref: "#/schemas/A"}}, schemas: {A: {type: string}}}`):                   "",
	} {
		problems, err := service(&shelf{}).Check(t.Context(), []file.File{{Name: "k.yaml", Content: []byte(head + text)}})
		require.NoError(t, err)
		var got []string
		for _, p := range problems {
			got = append(got, p.Error())
		}
		if want == "" {
			require.Empty(t, got, text)
			continue
		}
		require.NotEmpty(t, got, "%.300s", text)
		require.Contains(t, got[0], want)
	}
}
