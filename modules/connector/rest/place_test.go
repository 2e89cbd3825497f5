package rest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	upstreams "github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// Arguments go where the method says: into the query, a header, or as the whole
// body. No value can add a header.
func TestArgumentsGoWhereTheMethodSays(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusNoContent) })
	m := toolset.Method{HTTPMethod: "POST", Endpoint: "/pets/{id}?v=1", Adapter: toolset.Adapter{
		QueryParameters: []string{"notify", "absent"}, HeaderParameters: map[string]string{"trace": "X-Trace"}, BodyParameter: "body",
	}}
	out := execute(t, executor(t, nil), invocation(t, u, m, `{"id":"a/b","notify":[true,false],"trace":"t\r\nX-Evil: 1","body":["x",7]}`))
	require.Nil(t, out.Failure)
	got := u.seen()[0]
	require.Equal(t, "/pets/a%2Fb?v=1&notify=true&notify=false", got.uri)
	require.Equal(t, "t  X-Evil: 1", got.header.Get("X-Trace"))
	require.Empty(t, got.header.Get("X-Evil"))
	require.JSONEq(t, `["x",7]`, got.body)
}

// What no header can carry is refused, with the one whose it is.
func TestNoHeaderHoldsControlCharacters(t *testing.T) {
	t.Parallel()
	u := serve(t, answerJSON(`{}`))
	for name, a := range map[string]toolset.Adapter{
		"a header": {HeaderParameters: map[string]string{"note": "X-Note"}},
		"a style":  {Parameters: map[string]toolset.Parameter{"note": {In: toolset.InHeader, Name: "X-Note"}}},
	} {
		in := invocation(t, u, toolset.Method{Endpoint: "/", Adapter: a}, `{"note":"a\u0001b"}`)
		out := execute(t, executor(t, nil), in)
		require.NotNil(t, out.Failure, name)
		require.Equal(t, tool.CodeInvalidArguments, out.Failure.Code, name)
		require.Contains(t, out.Failure.Message, "X-Note", name)
	}
	in := invocation(t, u, toolset.Method{Endpoint: "/"}, `{}`)
	in.Credential = toolset.Credential{Type: toolset.Bearer, Value: secret + "\n"}
	out := execute(t, executor(t, nil), in)
	require.Equal(t, upstreams.CodeInvalidRequest, out.Failure.Code)
	require.Contains(t, out.Failure.Message, "The credential that goes into the header Authorization")
	require.NotContains(t, out.Failure.Message, secret)
	require.Empty(t, u.seen())
}
