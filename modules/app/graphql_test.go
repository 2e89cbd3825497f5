package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/graph-gophers/graphql-go"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

const shopDefinitions = `
enum State { OPEN CLOSED }
interface Node { id: ID! }
type Person implements Node { id: ID! login: String! }
type Order implements Node { id: ID! title: String! state: State! owner: Person notes(first: Int!): [String!]! secret(why: String!): String }
type PageInfo { hasNextPage: Boolean! endCursor: String }
type OrderConnection { nodes: [Order!]! pageInfo: PageInfo! }
input NewOrder { title: String! state: State = OPEN }
type Query { order(id: ID!): Order orders(first: Int = 2): OrderConnection! node(id: ID!): Node }
type Mutation { orderCreate(input: NewOrder!): Order! }
`

type buyer struct{ id, login string }

func (p *buyer) ID() graphql.ID { return graphql.ID(p.id) }
func (p *buyer) Login() string  { return p.login }

type order struct{ id, title, state string }

func (o *order) ID() graphql.ID                               { return graphql.ID(o.id) }
func (o *order) Title() string                                { return o.title }
func (o *order) State() string                                { return o.state }
func (o *order) Owner() *buyer                                { return &buyer{"p-1", "ann"} }
func (o *order) Secret(struct{ Why string }) (*string, error) { return nil, errSecret{} }
func (o *order) Notes(args struct{ First int32 }) []string {
	return []string{"a", "b", "c"}[:args.First]
}

type errSecret struct{}

func (errSecret) Error() string              { return "not for you" }
func (errSecret) Extensions() map[string]any { return map[string]any{"code": "FORBIDDEN"} }

type node struct{ of any }

func (n *node) ID() graphql.ID           { return n.of.(interface{ ID() graphql.ID }).ID() }
func (n *node) ToPerson() (*buyer, bool) { p, ok := n.of.(*buyer); return p, ok }
func (n *node) ToOrder() (*order, bool)  { o, ok := n.of.(*order); return o, ok }

type orderPage struct{ list []*order }

func (o orderPage) Nodes() []*order  { return o.list }
func (orderPage) PageInfo() pageInfo { return pageInfo{} }

type pageInfo struct{}

func (pageInfo) HasNextPage() bool  { return true }
func (pageInfo) EndCursor() *string { return new("c-1") }

type shop struct{}

func (shop) Order(args struct{ ID graphql.ID }) *order { return &order{string(args.ID), "Tea", "OPEN"} }

func (shop) Orders(args struct{ First int32 }) orderPage {
	return orderPage{[]*order{{"1", "Tea", "OPEN"}, {"2", "Cup", "CLOSED"}, {"3", "Pot", "OPEN"}}[:args.First]}
}
func (shop) Node(struct{ ID graphql.ID }) *node { return &node{&buyer{"p-1", "ann"}} }
func (shop) OrderCreate(args struct {
	Input struct {
		Title string
		State string
	}
},
) *order {
	return &order{"9", args.Input.Title, args.Input.State}
}

// graphqlShop is an API in GraphQL, and the requests that it got.
func graphqlShop(t *testing.T) (url string, requests *atomic.Int64) {
	t.Helper()
	schema, err := graphql.ParseSchema(shopDefinitions, &shop{})
	require.NoError(t, err)
	requests = new(atomic.Int64)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("Authorization") != "Bearer shop-key" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"errors":[{"message":"Who are you?","extensions":{"code":"UNAUTHENTICATED"}}]}`)
			return
		}
		var in struct {
			Query         string
			OperationName string
			Variables     map[string]any
		}
		if json.NewDecoder(r.Body).Decode(&in) != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/graphql-response+json")
		_ = json.NewEncoder(w).Encode(schema.Exec(r.Context(), in.Query, in.OperationName, in.Variables))
	}))
	t.Cleanup(web.Close)
	return web.URL + "/graphql", requests
}

// A GraphQL API becomes a toolset that works: its schema is asked for, loaded by
// one command, and called from Python.
func TestGraphQLAPIsBecomeTools(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	api, requests := graphqlShop(t)
	url := databasetest.URL(t, database.SQLite)
	s := serve(t, url, "TOOLSET_SHOP_API_KEY=shop-key")
	command := []string{"toolset", "import", "--graphql", api, "--name", "shop", "--mutations", "--bearer", "--egress", "127.0.0.0/8"}
	code, out, errs := portico(t, environ(t, url, "TOOLSET_SHOP_API_KEY=shop-key"), append(command, "--list")...)
	require.Equal(t, 0, code, errs)
	require.Equal(t, "query order(id: ID!): Order\nquery orders(first: Int): OrderConnection!\nquery node(id: ID!): Node\nmutation orderCreate(input: NewOrder!): Order!\n", out)
	code, out, errs = portico(t, environ(t, url, "TOOLSET_SHOP_API_KEY=shop-key"), append(command, "--strict")...)
	require.Equal(t, 0, code, errs)
	require.Equal(t, "toolset shop: 4 methods\n", out)
	o := s.run(map[string]any{"code": strings.Join([]string{
		"from refly_tools.shop import Shop",
		"def show(r): print(r['data'] if r['status'] == 'success' else (r['errorCode'], r['error']))",
		"show(Shop.order(id='7', file_name_title='x'))",
		"show(Shop.orders(first=1, file_name_title='x'))",
		"show(Shop.node(id='p-1', file_name_title='x'))",
		"show(Shop.orderCreate(input={'title': 'Jug'}, file_name_title='x'))",
		"show(Shop.order(id='7', fields='title notes(first: 2) owner { login }', file_name_title='x'))",
		"show(Shop.order(id='7', fields='titel', file_name_title='x'))",
		"show(Shop.order(id='7', fields='title } } mutation x { orderCreate(input: {title: \"y\"}) { id', file_name_title='x'))",
		"show(Shop.order(id='7', fields='title secret(why: \"x\")', file_name_title='x'))",
	}, "\n")})
	before := requests.Load()
	require.Equal(t, strings.Join([]string{
		"{'id': '7', 'title': 'Tea', 'state': 'OPEN', 'owner': {'id': 'p-1', 'login': 'ann'}}",
		"{'nodes': [{'id': '1', 'title': 'Tea', 'state': 'OPEN', 'owner': {'id': 'p-1', 'login': 'ann'}}], 'pageInfo': {'hasNextPage': True, 'endCursor': 'c-1'}}",
		"{'__typename': 'Person', 'id': 'p-1', 'login': 'ann'}",
		"{'id': '9', 'title': 'Jug', 'state': 'OPEN', 'owner': {'id': 'p-1', 'login': 'ann'}}",
		"{'title': 'Tea', 'notes': ['a', 'b'], 'owner': {'login': 'ann'}}",
		`('INVALID_ARGUMENTS', 'Invalid arguments: fields: Cannot query field "titel" on type "Order". Did you mean "title", "state", or "notes"?')`,
		"('INVALID_ARGUMENTS', 'Invalid arguments: fields: Unexpected }')",
		"('FORBIDDEN', 'not for you (at order.secret).')",
	}, "\n")+"\n", o.Stdout, o.Stderr)
	require.EqualValues(t, 2+6, before, "a selection that does not fit is not sent")
	// What the answer had besides the error is kept with the record.
	require.Equal(t, 1, s.count("SELECT count(*) FROM tool_call_results WHERE result_id = ? AND status = 'failed' AND output LIKE '%\"title\":\"Tea\"%'", o.ResultID))
}

// A schema in a file needs no API; without a credential, the API's own words say
// what is missing.
func TestGraphQLSchemasAreReadFromFiles(t *testing.T) {
	t.Parallel()
	api, _ := graphqlShop(t)
	url := databasetest.URL(t, database.SQLite)
	path := filepath.Join(t.TempDir(), "shop.graphql")
	require.NoError(t, os.WriteFile(path, []byte(shopDefinitions), 0o600))
	s := serve(t, url)
	code, _, errs := portico(t, environ(t, url), "toolset", "import", "--graphql", path, "--name", "shop", "--operation", "order", "--domain", api, "--egress", "127.0.0.0/8")
	require.Equal(t, 0, code, errs)
	a := s.send(s.key, "POST", "/v1/tool/execute", map[string]any{"toolsetKey": "shop", "toolName": "order", "arguments": map[string]any{"id": "7"}})
	require.Contains(t, a.raw, `"error":"Who are you?."`)
	require.Contains(t, a.raw, `"errorCode":"UNAUTHORIZED"`)
	code, _, errs = portico(t, environ(t, url), "toolset", "import", "--graphql", api, "--name", "shop", "--egress", "127.0.0.0/8")
	require.NotEqual(t, 0, code)
	require.Contains(t, errs, "the server does not tell its schema: Who are you?; give the schema as a file")
}
