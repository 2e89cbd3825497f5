package graphql_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/graph-gophers/graphql-go"
	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"
	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/internal/schema/shared"
	own "github.com/portico-run/portico/modules/connector/rest/graphql"
	"github.com/portico-run/portico/modules/connector/rest/graphql/exchange"
	"github.com/portico-run/portico/modules/toolset"
)

const definitions = `
"A moment, as RFC 3339 says"
scalar DateTime
enum State { OPEN CLOSED }
interface Node { id: ID! }
type Person implements Node { id: ID! login: String! boss: Person issues(first: Int, after: String): IssueConnection! }
type Issue implements Node {
  id: ID!
  title: String!
  state: State!
  made: DateTime
  author: Person
  old: String @deprecated(reason: "gone")
  diff(against: ID!): String
  labels: [String!]!
}
type IssueEdge { cursor: String! node: Issue }
type PageInfo { hasNextPage: Boolean! endCursor: String }
type IssueConnection { edges: [IssueEdge] nodes: [Issue] pageInfo: PageInfo! totalCount: Int! }
type File { name: String! size: Int }
type Folder { name: String! size: Int! }
union Thing = File | Folder
input Filter { state: State and: [Filter!] or: [Filter!] title: String }
input NewIssue { title: String! labels: [String!] = ["new"] state: State = OPEN }
type Query {
  "One issue"
  issue(id: ID!): Issue
  issues(first: Int = 10, after: String, filter: Filter): IssueConnection!
  things: [Thing!]!
  node(id: ID!): Node
  version: String!
  former: String @deprecated(reason: "use version")
}
type Mutation { issueCreate(input: NewIssue!): Issue! issue(id: ID!, title: String!): Issue }
schema { query: Query mutation: Mutation }
`

// made is a toolset file as it is read.
type made struct {
	Domain     string
	Credential struct{ Type, Name, Value string }
	Schemas    map[string]any
	Methods    []struct {
		Name, Description, Endpoint, Method string
		Adapter                             struct {
			Idempotent bool
			Headers    map[string]string
			GraphQL    toolset.GraphQL `yaml:"graphql"`
		}
		Request, Response map[string]any
	}
}

func options() own.Options {
	return own.Options{Key: "shop", Endpoint: "https://api.example.com/v2/graphql", Price: "0"}
}

func load(t *testing.T, text string) *ast.Schema {
	t.Helper()
	schema, err := own.Load([]byte(text))
	require.NoError(t, err)
	return schema
}

func convert(t *testing.T, text string, change func(o *own.Options)) (made, own.Toolset) {
	t.Helper()
	o := options()
	if change != nil {
		change(&o)
	}
	got, err := own.Convert(load(t, text), o)
	require.NoError(t, err)
	var m made
	require.NoError(t, yaml.Unmarshal(got.File, &m), "%s", got.File)
	require.Len(t, m.Methods, got.Methods)
	return m, got
}

func (m made) query(t *testing.T, name string) string {
	t.Helper()
	for _, one := range m.Methods {
		if one.Name == name {
			return one.Adapter.GraphQL.Query
		}
	}
	require.Fail(t, "no method "+name)
	return ""
}

// A tool asks for scalars and enums, once around every cycle, for one page, and
// for nothing that needs arguments or is deprecated.
func TestSelectionsAreBounded(t *testing.T) {
	t.Parallel()
	m, _ := convert(t, definitions, func(o *own.Options) { o.Mutations = true })
	for name, want := range map[string]string{
		"issue":          "query issue($id: ID!) { issue(id: $id) { id title state made labels author { id login } } }",
		"issues":         "query issues($first: Int = 10, $after: String, $filter: Filter) { issues(first: $first, after: $after, filter: $filter) { nodes { id title state made labels author { id login } } pageInfo { hasNextPage endCursor } totalCount } }",
		"things":         "query things { things { __typename ... on File { name size } ... on Folder { name Folder_size: size } } }",
		"node":           "query node($id: ID!) { node(id: $id) { __typename id ... on Issue { title state made labels } ... on Person { login } } }",
		"version":        "query version { version }",
		"issueCreate":    "mutation issueCreate($input: NewIssue!) { issueCreate(input: $input) { id title state made labels author { id login } } }",
		"issue_mutation": "mutation issue_mutation($id: ID!, $title: String!) { issue(id: $id, title: $title) { id title state made labels author { id login } } }",
	} {
		require.Equal(t, want, m.query(t, name))
	}
}

// Arguments and results have the types of the schema.
func TestTypesOfTools(t *testing.T) {
	t.Parallel()
	m, got := convert(t, definitions, func(o *own.Options) {
		o.Operations = []string{"issues", "issueCreate"}
		o.Mutations = true
		o.Bearer = true
	})
	require.Equal(t, "https://api.example.com", m.Domain)
	require.Equal(t, "/v2/graphql", m.Methods[0].Endpoint)
	require.True(t, m.Methods[0].Adapter.Idempotent, "a query may be repeated")
	require.False(t, m.Methods[1].Adapter.Idempotent, "a mutation may not")
	require.Equal(t, "bearer ${TOOLSET_SHOP_API_KEY}", m.Credential.Type+" "+m.Credential.Value)
	text, err := json.Marshal(m.Methods[1].Request)
	require.NoError(t, err)
	require.Contains(t, string(text), `"required":["input"]`)
	for _, part := range []string{
		`"additionalProperties":false`, // of every object
		`  NewIssue: {"type":"object","properties":{"title":{"type":"string"},"labels":{"type":["array","null"],"items":{"type":"string"},"description":"Default: [\"new\"]"},"state":{"anyOf":[{"$ref":"#/schemas/State"},{"type":"null"}],"description":"Default: OPEN"}},"required":["title"]`,
		`  State: {"enum":["OPEN","CLOSED"]}`,
		`"and":{"type":["array","null"],"items":{"$ref":"#/schemas/Filter"}}`, // within itself
		`"made":{"description":"DateTime: A moment, as RFC 3339 says"}`,
		`"totalCount":{"type":"integer"}`,
		`"nodes":{"type":["array","null"],"items":{"type":["object","null"]`,
	} {
		require.Contains(t, string(got.File), part)
	}
}

// What is left out is told, and choosing works by the name of the field.
func TestWhatIsLeftOutIsTold(t *testing.T) {
	t.Parallel()
	_, got := convert(t, definitions, nil)
	require.Equal(t, []own.LeftOut{{Operation: "former", Reason: "deprecated: use version"}}, got.LeftOut)
	m, got := convert(t, definitions, func(o *own.Options) { o.Operations = []string{"former"} })
	require.Empty(t, got.LeftOut)
	require.Equal(t, "former", m.Methods[0].Name)
	for says, change := range map[string]func(o *own.Options){
		`no operation "fly"`:                  func(o *own.Options) { o.Operations = []string{"fly"} },
		"add --mutations":                     func(o *own.Options) { o.Operations = []string{"issueCreate"} },
		"give its http or https URL with --d": func(o *own.Options) { o.Endpoint = "" },
	} {
		o := options()
		change(&o)
		_, err := own.Convert(load(t, definitions), o)
		require.ErrorContains(t, err, says)
	}
}

// A server that tells its schema gives the same tools as its definitions.
func TestIntrospectionGivesTheSameTools(t *testing.T) {
	t.Parallel()
	server, err := graphql.ParseSchema(definitions, nil)
	require.NoError(t, err)
	text, err := server.ToJSON()
	require.NoError(t, err)
	all := func(o *own.Options) { o.Mutations = true }
	want, _ := convert(t, definitions, all)
	got, _ := convert(t, string(text), all)
	require.Len(t, got.Methods, len(want.Methods))
	for _, m := range want.Methods {
		require.Equal(t, m.Adapter.GraphQL.Query, got.query(t, m.Name))
	}
	for name, s := range want.Schemas {
		if !strings.HasPrefix(name, toolset.GraphQLTypes) {
			require.Equal(t, s, got.Schemas[name], name)
		}
	}
	_, err = own.Load([]byte(`{"errors":[{"message":"introspection is off"}]}`))
	require.ErrorContains(t, err, "introspection is off; give the schema as a file")
}

// Published schemas define fields twice and carry directives that they do not
// define.
func TestSchemasAsTheyArePublishedAreRead(t *testing.T) {
	t.Parallel()
	m, _ := convert(t, `type Query @preview { a: Int @cost(n: 3) a: Int b(x: Int @foo): Int } extend type Query { c: Int } scalar Any @tag(name: "x") type Query { d: Int }`, nil)
	require.Len(t, m.Methods, 3)
}

// Schemas and toolsets are bounded.
func TestBounds(t *testing.T) {
	t.Parallel()
	_, err := own.Load([]byte("type Query { a: Int }\n" + strings.Repeat("#", own.MaxSchema)))
	require.ErrorContains(t, err, "more than 5242880")
	var b strings.Builder
	b.WriteString("type Query {")
	for i := range own.MaxOperations + 1 {
		fmt.Fprintf(&b, " f%d: Int", i)
	}
	b.WriteString(" }")
	_, err = own.Convert(load(t, b.String()), options())
	require.ErrorContains(t, err, "2001 operations, more than 2000")

	// Input objects that lead to each other in every order are cut off.
	b.Reset()
	for i := range 30 {
		fmt.Fprintf(&b, "input In%d { name: String", i)
		for j := range 30 {
			fmt.Fprintf(&b, " in%d: In%d", j, j)
		}
		b.WriteString(" }\n")
	}
	m, got := convert(t, b.String()+"type Query { all(where: In0): Int }", nil)
	require.Less(t, len(got.File), 200<<10)
	text, err := json.Marshal(m.Methods[0].Request)
	require.NoError(t, err)
	require.Contains(t, string(text), "A In3, of which this server does not say more")

	// A type with many fields is asked for less deeply.
	b.Reset()
	for i := range 5 {
		fmt.Fprintf(&b, "type T%d { id: ID! name: String", i)
		for j := range 30 {
			fmt.Fprintf(&b, " f%d: Int", j)
		}
		for j := range 5 {
			fmt.Fprintf(&b, " t%d: T%d", j, j)
		}
		b.WriteString(" }\n")
	}
	m, _ = convert(t, b.String()+"type Query { t: T0 }", nil)
	query := m.query(t, "t")
	require.Less(t, len(strings.Fields(query)), 130)
	require.Contains(t, query, "t1 { id name }")
}

// A caller's selection is checked against the types before it is sent, and is
// nothing but a selection.
func TestSelectionsOfCallersAreChecked(t *testing.T) {
	t.Parallel()
	m, _ := convert(t, definitions, nil)
	schemas := shared.Schemas{}
	for name, s := range m.Schemas {
		text, err := json.Marshal(s)
		require.NoError(t, err)
		schemas[name] = text
	}
	types, err := exchange.Types(schemas)
	require.NoError(t, err)
	g := m.Methods[0].Adapter.GraphQL
	require.Equal(t, "fields", g.Fields)
	for _, fields := range []string{"title", "{ title author { boss { login } } }", `title diff(against: "7") # as text`, "...on Node { id }"} {
		query, err := exchange.Select(types, g, fields)
		require.NoError(t, err, fields)
		require.True(t, strings.HasPrefix(query, "query issue"), query)
		require.NotContains(t, query, "labels")
	}
	for fields, says := range map[string]string{
		"titel":               `Cannot query field "titel" on type "Issue". Did you mean "title"`,
		"author":              "must have a selection of subfields",
		"title { x }":         `query field "x" on type "String"`,
		"diff":                `"against"`,
		"id } version { x":    "",
		"id } } query b { id": "",
		"id } mutation b { issueCreate(input: {title: \"x\"}) { id }": "must be one selection set",
		"...f } fragment f on Issue { id":                             "must be one selection set",
		"...f":                                                        `Unknown fragment "f"`,
		"diff(against: $nobody)":                                      `"$nobody"`,
		strings.Repeat("author { boss ", 3000):                        "",
		"":                                                            "",
	} {
		_, err := exchange.Select(types, g, fields)
		require.Error(t, err, fields)
		require.ErrorContains(t, err, says)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"errors":[{"message":"No.","path":["issue","author",0]}],"data":{"issue":null}}`: "GRAPHQL_ERROR No (at issue.author.0). 0",
		`{"errors":[{"message":"Slow down","type":"RATE_LIMITED"}]}`:                       "RATE_LIMIT_ERROR Slow down. 0",
		`{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":502,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":402,"restoreRate":50}}}}`: "RATE_LIMIT_ERROR Throttled. 2",
		`{"errors":[{"message":"a"},{"message":"b"},{"message":"c"},{"message":"d"},{"message":"e"},{"message":"f"},{"message":"g","extensions":{"type":"authentication error"}}]}`:                                    "UNAUTHORIZED a; b; c; d; e; and 2 more errors. 0",
	} {
		a, ok := exchange.Read([]byte(body))
		require.True(t, ok)
		require.Equal(t, want, fmt.Sprintf("%s %s %d", a.Code(), a.Message(), a.Wait()))
	}
	for _, body := range []string{"", "<html>", "[]", `{"message":"not found"}`} {
		_, ok := exchange.Read([]byte(body))
		require.False(t, ok, body)
	}
}
