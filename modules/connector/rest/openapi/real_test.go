package openapi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/connector/rest"
	"github.com/portico-run/portico/modules/connector/rest/openapi"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/store"
)

const head = "openapi: 3.0.3\ninfo: {title: x, version: '1'}\nservers: [{url: 'https://x.example.com/v1'}]\n"

// imports converts a document and applies what was made.
func imports(t *testing.T, document string, o openapi.Options) (openapi.Toolset, store.Spec) {
	t.Helper()
	o.Key, o.Price = "x", "0"
	made, err := openapi.Convert(t.Context(), []byte(document), o)
	require.NoError(t, err)
	return made, applied(t, made)
}

// applied is what the inventory is given of what was made, whatever its
// variables are.
func applied(t *testing.T, made openapi.Toolset) store.Spec {
	t.Helper()
	variables := map[string]string{}
	for _, match := range regexp.MustCompile(`\$\{([A-Z0-9_]+)\}`).FindAllStringSubmatch(string(made.File), -1) {
		variables[match[1]] = "value-of-" + match[1]
	}
	var i inventory
	files := file.New(file.Deps{Inventory: &i, Variables: variables, Pricer: price.NewPricer(120 * money.Credit), Kinds: toolset.NewKinds(rest.New(rest.Deps{}), rest.OAuth{Connector: rest.New(rest.Deps{})})})
	_, err := files.Apply(t.Context(), []file.File{{Name: "made.yaml", Content: made.File}})
	require.NoError(t, err, "%s", made.File)
	for n, m := range i.specs[0].Methods {
		i.specs[0].Methods[n], err = m.Whole()
		require.NoError(t, err)
	}
	return i.specs[0]
}

// What import writes, apply takes, of every document here, in place and shared;
// nothing is left out, and it is at most twice the document.
func TestApplyTakesWhateverImportWrites(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	for _, name := range names {
		if strings.Contains(name, "golden") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		o := openapi.Options{Key: "x", Price: "0", Domain: "https://x.example.com", Location: name, Read: below("testdata")}
		made, err := openapi.Convert(t.Context(), text, o)
		require.NoError(t, err, name)
		require.Empty(t, made.LeftOut, name)
		applied(t, made)
		require.Less(t, len(made.File), 2*len(text)+400, name)
		shared, err := openapi.Shared(t.Context(), text, o)
		require.NoError(t, err, name)
		applied(t, shared)
	}
}

func below(folder string) openapi.Read {
	return func(_ context.Context, location string) ([]byte, error) {
		if filepath.Dir(filepath.Clean(location)) != folder {
			return nil, errors.New("outside")
		}
		return os.ReadFile(location)
	}
}

// A bad operation costs only itself, and the report says why.
func TestBadOperationCostsOnlyItself(t *testing.T) {
	t.Parallel()
	made, spec := imports(t, head+`components: {schemas: {Bad: {type: string, pattern: '(?<x', default: 3, minLength: many}, Odd: {type: nothing}}}
paths:
  /good: {get: {operationId: good, parameters: [{name: q, in: query, schema: {$ref: '#/components/schemas/Bad'}}], responses: {}}}
  /odd: {get: {operationId: odd, parameters: [{name: q, in: query, schema: {$ref: '#/components/schemas/Odd'}}]}}
  /missing: {get: {parameters: [{$ref: '#/components/parameters/None'}]}}
  /circle: {get: {parameters: [{$ref: '#/paths/~1circle/get/parameters/0'}]}}
  /form: {post: {requestBody: {content: {multipart/form-data: {schema: {type: string}}}}}}
  /text: 7
  /elsewhere: {$ref: 'other.yaml#/x'}
  /verbs: {trace: {}, options: {}, get: {operationId: verbs}}
  /undeclared/{id}: {get: {operationId: undeclared}}
`, openapi.Options{})
	var names, left []string
	for _, m := range spec.Methods {
		names = append(names, m.Name)
	}
	for _, l := range made.LeftOut {
		if l.Part == "" {
			left = append(left, l.Operation)
		}
	}
	require.Equal(t, []string{"good", "odd", "undeclared", "verbs"}, names)
	require.ElementsMatch(t, []string{"GET /missing", "GET /circle", "POST /form", "/text", "/elsewhere", "TRACE /verbs", "OPTIONS /verbs"}, left)
	require.Contains(t, fmt.Sprint(made.LeftOut), "it is written for another engine")
	require.Contains(t, fmt.Sprint(made.LeftOut), `"nothing" is no type`)
	require.Contains(t, fmt.Sprint(made.Notes), "{id} in the path is no parameter of the document")
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"properties":{"q":{"type":"string","default":"3"}}}`, string(spec.Methods[0].Request))
}

// A document may refer to others, within what may be read.
func TestReferencesToOtherDocuments(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"/d/parts/pet.yaml":                "type: object\nrequired: [name]\nproperties: {name: {type: string}, owner: {$ref: '../people.json#/Owner'}, mother: {$ref: 'pet.yaml'}}\n",
		"/d/people.json":                   `{"Owner":{"type":"object","properties":{"pet":{"$ref":"parts/pet.yaml"},"web":{"$ref":"https://web.example.com/a/b.yaml#/C"}}}}`,
		"https://web.example.com/a/b.yaml": "C: {$ref: '../d.yaml#/D'}",
		"https://web.example.com/d.yaml":   "D: {type: integer}",
		"/d/paths.yaml":                    "get: {operationId: getPet, parameters: [{name: id, in: path, required: true, schema: {type: integer}}], responses: {'200': {content: {application/json: {schema: {$ref: 'parts/pet.yaml'}}}}}}\n",
	}
	asked := map[string]int{}
	read := func(_ context.Context, location string) ([]byte, error) {
		asked[location]++
		if text, ok := files[location]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("it may not be read")
	}
	made, spec := imports(t, head+"paths: {'/pets/{id}': {$ref: paths.yaml}, /no: {get: {operationId: no, parameters: [{$ref: ../../etc/passwd}]}}}\n", openapi.Options{Location: "/d/main.yaml", Read: read})
	require.Len(t, spec.Methods, 1)
	require.JSONEq(t, `{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"mother":{},"owner":{"type":"object","properties":{"pet":{},"web":{"type":"integer"}}}}}`, string(spec.Methods[0].Response))
	require.Equal(t, []openapi.Left{{Operation: "GET /no", Reason: "../../etc/passwd cannot be read: it may not be read"}}, made.LeftOut)
	for location, n := range asked {
		require.Equal(t, 1, n, location)
	}
}

// Schemas of both generations mean in JSON Schema what they mean in OpenAPI.
func TestSchemasOfBothGenerations(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{type: string, nullable: true, enum: [a]}`:                                                               `{"type":["string","null"],"enum":["a",null]}`,
		`{type: [string, 'null']}`:                                                                                `{"type":["string","null"]}`,
		`{nullable: true, allOf: [{type: string}], description: d}`:                                               `{"description":"d","anyOf":[{"allOf":[{"type":"string"}]},{"type":"null"}]}`,
		`{nullable: true, oneOf: [{type: string}]}`:                                                               `{"oneOf":[{"type":"string"},{"type":"null"}]}`,
		`{type: integer, minimum: 1, exclusiveMinimum: true, maximum: 5}`:                                         `{"type":"integer","exclusiveMinimum":1,"maximum":5}`,
		`{type: integer, exclusiveMinimum: 1}`:                                                                    `{"type":"integer","exclusiveMinimum":1}`,
		`{type: object, required: [a, a, b], properties: {a: {type: string}, b: {readOnly: true, type: string}}}`: `{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`,
		`{type: object, additionalProperties: {type: integer}}`:                                                   `{"type":"object","additionalProperties":{"type":"integer"}}`,
		`{type: array, items: true, prefixItems: [{const: 1}]}`:                                                   `{"type":"array","items":{},"prefixItems":[{"const":1}]}`,
		`{type: string, default: 2020-01-01, enum: [2020-01-01, 'x']}`:                                            `{"type":"string","default":"2020-01-01","enum":["2020-01-01","x"]}`,
		`{type: integer, default: none}`:                                                                          `{"type":"integer"}`,

		`{oneOf: [{$ref: '#/components/schemas/Cat'}], discriminator: {propertyName: k, mapping: {meow: '#/components/schemas/Cat'}}}`: `{"anyOf":[{"allOf":[{"type":"object"},{"type":"object","properties":{"k":{"enum":["meow"]}},"required":["k"]}]}]}`,
	} {
		_, spec := imports(t, head+"components: {schemas: {Cat: {type: object}}}\npaths: {/x: {get: {operationId: x, responses: {'200': {content: {application/json: {schema: "+schema+"}}}}}}}\n", openapi.Options{})
		require.JSONEq(t, want, string(spec.Methods[0].Response), schema)
	}
}

// Bodies that combine schemas become arguments where that is possible.
func TestBodiesBecomeArguments(t *testing.T) {
	t.Parallel()
	_, spec := imports(t, head+`components: {schemas: {Base: {type: object, required: [a], properties: {a: {type: string}, id: {type: string, readOnly: true}}}}}
paths:
  /a: {post: {operationId: all, requestBody: {content: {application/json: {schema: {allOf: [{$ref: '#/components/schemas/Base'}, {type: object, properties: {b: {type: integer}}}]}}}}}}
  /b: {post: {operationId: one, requestBody: {required: true, content: {application/json: {schema: {oneOf: [{$ref: '#/components/schemas/Base'}]}}}}}}
  /c: {post: {operationId: open, requestBody: {content: {application/json: {schema: {type: object, properties: {b: {}}, additionalProperties: true}}}}}}
`, openapi.Options{})
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"integer"}}}`, string(spec.Methods[0].Request))
	require.Equal(t, "body", spec.Methods[1].Adapter.BodyParameter)
	require.Equal(t, "body", spec.Methods[2].Adapter.BodyParameter)
}

// Names stay apart and are ones that code can write.
func TestNamesOfOperationsAndParameters(t *testing.T) {
	t.Parallel()
	made, spec := imports(t, head+`paths:
  /a: {get: {operationId: same, parameters: [{name: 'filter[name]', in: query, schema: {type: string}}, {name: filter_name, in: query, schema: {type: string}}, {name: 2fa, in: query, schema: {type: string}}, {name: file_name_title, in: query, schema: {type: string}}]}}
  /b: {get: {operationId: same}}
  /c/{d}: {get: {}}
  /e: {get: {operationId: `+strings.Repeat("long", 60)+`}}
`, openapi.Options{})
	var names []string
	for _, m := range spec.Methods {
		names = append(names, m.Name)
	}
	require.Equal(t, []string{"get_b", "get_c_d"}, names[:2])
	require.Equal(t, "same", names[3])
	require.Len(t, names[2], 100)
	require.Contains(t, made.Notes[0], "GET /b is called get_b: another operation is called same")
	for _, name := range []string{`"filter_name"`, `"query_filter_name"`, `"_2fa"`, `"query_file_name_title"`} {
		require.Contains(t, string(spec.Methods[3].Request), name)
	}
}

// Where the API is follows from the document, from where it was, or is said.
func TestServers(t *testing.T) {
	t.Parallel()
	document := func(servers string) string {
		return "openapi: 3.0.0\ninfo: {title: x, version: '1'}\nservers: " + servers + "\npaths: {/x: {get: {operationId: x}}, /y: {servers: [{url: 'https://other.example.com/b'}], get: {operationId: y}}}\n"
	}
	const region = "[{url: 'https://{region}.example.com/{v}', variables: {region: {default: eu, enum: [eu, us]}, v: {default: 1}}}]"
	for _, c := range []struct {
		servers string
		o       openapi.Options
		want    string
	}{
		{"[{url: /v1}]", openapi.Options{Location: "https://docs.example.com/a/openapi.yaml"}, "https://docs.example.com/v1"},
		{"[{url: v1}]", openapi.Options{Location: "https://docs.example.com/a/openapi.yaml"}, "https://docs.example.com/a/v1"},
		{region, openapi.Options{}, "https://eu.example.com/1"},
		{region, openapi.Options{ServerVariables: map[string]string{"region": "us", "v": "2"}}, "https://us.example.com/2"},
		{"[{url: 'https://{host}'}, {url: 'https://b.example.com/'}]", openapi.Options{}, "https://b.example.com"},
	} {
		_, spec := imports(t, document(c.servers), c.o)
		require.Equal(t, c.want, spec.Domain)
		require.Equal(t, "https://other.example.com/b/y", spec.Methods[1].Endpoint)
	}
	for says, c := range map[string]struct {
		servers string
		o       openapi.Options
	}{
		"--server-var host=VALUE": {"[{url: 'https://{host}'}]", openapi.Options{}},
		"must be one of":          {region, openapi.Options{ServerVariables: map[string]string{"region": "mars"}}},
		"--domain":                {"[{url: /v1}]", openapi.Options{}},
	} {
		_, err := openapi.Convert(t.Context(), []byte(document(c.servers)), c.o)
		require.ErrorContains(t, err, says)
	}
}

// Calls carry what most operations take, what is asked for, or a token.
func TestSecuritySchemes(t *testing.T) {
	t.Parallel()
	document := func(security string) string {
		return head + `components: {securitySchemes: {
  key: {type: apiKey, in: cookie, name: sid}, id: {type: apiKey, in: header, name: X-Id}, basic: {type: http, scheme: basic}, token: {type: http, scheme: bearer}, digest: {type: http, scheme: digest},
  client: {type: oauth2, flows: {clientCredentials: {tokenUrl: /token, scopes: {b: x, a: x}}}}, implicit: {type: oauth2, flows: {implicit: {authorizationUrl: /agree, scopes: {}}}},
  person: {type: oauth2, flows: {authorizationCode: {authorizationUrl: '/agree?prompt=consent', tokenUrl: 'https://a.example.com/token', refreshUrl: 'https://a.example.com/again', scopes: {read: x, write: x, admin: x}}}}}}
security: ` + security + `
paths: {/a: {get: {operationId: a}}, /b: {get: {operationId: b}},  /open: {get: {operationId: open, security: []}}, /basic: {get: {operationId: basic, security: [{basic: []}]}}}
`
	}
	key := toolset.Credential{Type: "cookie", Name: "sid", Value: "value-of-TOOLSET_X_API_KEY"}
	both := toolset.Credential{Type: "header", Name: "X-Id", Value: "value-of-TOOLSET_X_API_KEY", Also: []toolset.Credential{{Type: "cookie", Name: "sid", Value: "value-of-TOOLSET_X_KEY_API_KEY"}}}
	person := func(scopes string) toolset.Credential {
		return toolset.Credential{
			Type: "authorizationCode", Name: "https://a.example.com/token", Authorize: "https://x.example.com/agree?prompt=consent",
			Username: "value-of-TOOLSET_X_CLIENT_ID", Value: "value-of-TOOLSET_X_CLIENT_SECRET", Scopes: scopes,
		}
	}
	for _, c := range []struct {
		security string
		o        openapi.Options
		want     toolset.Credential
		left     int
	}{
		{"[{key: []}]", openapi.Options{}, key, 1},
		{"[{key: [], id: []}]", openapi.Options{}, both, 1},
		{"[{person: []}, {digest: []}, {key: []}]", openapi.Options{}, key, 1},
		{"[{person: [read]}]", openapi.Options{}, person("read"), 1},
		{"[{person: [write, read]}, {key: []}]", openapi.Options{Security: []string{"person"}}, person("read write"), 1},
		{"[{person: []}]", openapi.Options{}, person(""), 1},
		{"[{key: []}]", openapi.Options{Security: []string{"basic"}}, toolset.Credential{Type: "basic", Username: "value-of-TOOLSET_X_USER", Value: "value-of-TOOLSET_X_API_KEY"}, 2},
		{"[{person: []}]", openapi.Options{Bearer: true}, toolset.Credential{Type: "bearer", Value: "value-of-TOOLSET_X_API_KEY"}, 0},
		{"[{client: [a]}]", openapi.Options{}, toolset.Credential{Type: "clientCredentials", Name: "https://x.example.com/token", Username: "value-of-TOOLSET_X_CLIENT_ID", Value: "value-of-TOOLSET_X_CLIENT_SECRET", Scopes: "a b"}, 1},
		{"[{person: []}, {token: []}]", openapi.Options{}, toolset.Credential{Type: "bearer", Value: "value-of-TOOLSET_X_API_KEY"}, 1},
	} {
		made, spec := imports(t, document(c.security), c.o)
		require.Equal(t, &c.want, spec.Credential, c.security)
		require.Equal(t, map[bool]string{true: "oauth", false: "regular"}[c.want.Type == "authorizationCode"], spec.Type)
		require.Len(t, made.LeftOut, c.left, c.security)
	}
	made, _ := imports(t, document("[{implicit: []}]"), openapi.Options{})
	require.Contains(t, made.LeftOut[0].Reason, "import the document with --bearer")
	made, _ = imports(t, document("[{person: []}]"), openapi.Options{})
	require.Contains(t, strings.Join(made.Notes, "\n"), "refreshes tokens at https://a.example.com/again")
	made, _ = imports(t, document("[{person: []}, {key: []}]"), openapi.Options{})
	require.Contains(t, strings.Join(made.Notes, "\n"), "with --security person each user has a token of their own")
	for says, o := range map[string]openapi.Options{
		"no security scheme": {Security: []string{"none"}}, "give one of them": {Security: []string{"key"}, Bearer: true}, "not one that toolsets know": {Security: []string{"digest"}},
	} {
		_, err := openapi.Convert(t.Context(), []byte(document("[]")), o)
		require.ErrorContains(t, err, says)
	}
}

// A Swagger 2 document becomes what the same document of OpenAPI 3 would.
func TestSwagger2(t *testing.T) {
	t.Parallel()
	_, spec := imports(t, `{"swagger":"2.0","info":{"title":"Old","version":"1"},"host":"old.example.com","basePath":"/v2","schemes":["http","https"],"consumes":["application/json"],
		"securityDefinitions":{"k":{"type":"apiKey","in":"query","name":"key"}},"definitions":{"Pet":{"type":"object","required":["name"],"properties":{"name":{"type":"string","x-nullable":true}}}},
		"parameters":{"tags":{"name":"tags","in":"query","type":"array","items":{"type":"string"},"collectionFormat":"csv"}},"paths":{
		"/pets":{"post":{"operationId":"add","parameters":[{"$ref":"#/parameters/tags"},{"name":"pet","in":"body","required":true,"schema":{"$ref":"#/definitions/Pet"}}],
			"responses":{"200":{"description":"ok","schema":{"$ref":"#/definitions/Pet"}}}}},
		"/photo":{"post":{"operationId":"photo","consumes":["multipart/form-data"],"parameters":[{"name":"file","in":"formData","type":"file","required":true},{"name":"note","in":"formData","type":"string"}]}},
		"/form":{"post":{"operationId":"form","consumes":["application/x-www-form-urlencoded"],"parameters":[{"name":"ids","in":"formData","type":"array","items":{"type":"integer"},"collectionFormat":"pipes"}]}},
		"/text":{"get":{"operationId":"text","produces":["text/plain"],"parameters":[{"name":"n","in":"query","type":"integer","maximum":5,"default":1}],"responses":{"200":{"schema":{"type":"string"}}}}}}}`, openapi.Options{})
	require.Equal(t, "https://old.example.com/v2", spec.Domain)
	require.Equal(t, "key", spec.Credential.Name)
	methods := map[string]toolset.Method{}
	for _, m := range spec.Methods {
		methods[m.Name] = m
	}
	no := false
	require.Equal(t, toolset.Parameter{In: "query", Explode: &no}, methods["add"].Adapter.Parameters["tags"])
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["name"],"properties":{"name":{"type":["string","null"]},"tags":{"type":"array","items":{"type":"string"}}}}`, string(methods["add"].Request))
	require.JSONEq(t, `{"type":"object","required":["name"],"properties":{"name":{"type":["string","null"]}}}`, string(methods["add"].Response))
	require.True(t, methods["photo"].Adapter.UseFormData)
	require.Contains(t, string(methods["photo"].Request), `"isResource":true`)
	require.Equal(t, toolset.Parameter{In: "body", Style: "pipeDelimited"}, methods["form"].Adapter.Parameters["ids"])
	require.JSONEq(t, `{"type":"string"}`, string(methods["text"].Response))
	require.Contains(t, string(methods["text"].Request), `"maximum":5`)
}

// Callbacks and webhooks are told and no tools.
func TestCallbacksAndWebhooksAreNoted(t *testing.T) {
	t.Parallel()
	made, spec := imports(t, strings.Replace(head, "3.0.3", "3.1.0", 1)+"webhooks: {new: {post: {}}}\npaths: {/x: {post: {operationId: x, callbacks: {done: {'{$request.body#/url}': {post: {}}}}}}}\n", openapi.Options{})
	require.Len(t, spec.Methods, 1)
	require.Len(t, made.Notes, 2)
	require.Empty(t, made.LeftOut)
}

// A list shows what would be made, and makes nothing.
func TestList(t *testing.T) {
	t.Parallel()
	got, left, err := openapi.List(t.Context(), read(t, "pets.yaml"), openapi.Options{ReadOnly: true})
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, []openapi.Operation{{Name: "list_pets", Method: "GET", Path: "/pets", Summary: "Lists pets.", Tags: []string{"read"}, ReadOnly: true}}, got)
}

// Neither a circle of aliases nor many of them take the memory of the machine.
func TestYAMLBombsAreRefused(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for n := 1; n < 9; n++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", n, n, strings.Repeat(fmt.Sprintf("*a%d, ", n-1), 9), n-1)
	}
	for _, document := range []string{head + bomb, head + "a: &a {b: *a}\n"} {
		_, err := openapi.Convert(t.Context(), []byte(document), openapi.Options{})
		require.ErrorContains(t, err, "cannot be read")
	}
}
