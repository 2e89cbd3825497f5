package python_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// TestNothingThere covers the failures without an answer: no exception, no
// secret, and what to do.
func TestNothingThere(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	for name, tc := range map[string]struct {
		env  []string
		code string
		want string
	}{
		"no address":  {nil, "E0003", "REFLY_TOOL_SERVICE_API_URL is not set"},
		"closed port": {[]string{"REFLY_TOOL_SERVICE_API_URL=" + closed}, "E0001", "Cannot reach the tool service (ConnectionRefusedError)"},
		"no socket":   {[]string{"REFLY_TOOL_SERVICE_API_URL=unix:///nowhere/tool.sock"}, "E0001", "(FileNotFoundError)"},
		"bad scheme":  {[]string{"REFLY_TOOL_SERVICE_API_URL=ftp://x"}, "E0003", "must start with http://"},
		"bad port":    {[]string{"REFLY_TOOL_SERVICE_API_URL=http://x:port"}, "E0003", "must start with http://"},
		"bad host":    {[]string{"REFLY_TOOL_SERVICE_API_URL=http://a..b"}, "E0003", "must start with http://"},
		"bad timeout": {[]string{"REFLY_TOOL_SERVICE_API_URL=" + closed, "REFLY_TOOL_TIMEOUT=soon"}, "E0003", "REFLY_TOOL_TIMEOUT must be a number"},
		"bad key": {
			[]string{"REFLY_TOOL_SERVICE_API_URL=" + closed, "REFLY_TOOL_SERVICE_API_KEY=rf_secret\nx"},
			"E0003",
			"header Authorization is not printable ASCII",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, stderr := program(t, `show(draw())`, append(tc.env, "REFLY_PTC_DEBUG=true"))
			got := result(t, out)
			require.Equal(t, "error", got["status"])
			require.Equal(t, tc.code, got["errorCode"])
			require.Contains(t, got["error"], tc.want)
			require.NotContains(t, out+stderr, "rf_secret")
		})
	}
}

// A service that breaks off when it has the call may have executed it.
func TestACallThatArrivedWasMade(t *testing.T) {
	t.Parallel()
	s := newService(t, false, func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) })
	out, _ := program(t, `show(draw())`, s.env())
	got := result(t, out)
	require.Equal(t, "E0001", got["errorCode"])
	require.Equal(t, "No answer from the tool service (RemoteDisconnected). The tool may still have run: check its effect before calling it again.", got["error"])
}

func TestAnswersThatAreNoEnvelope(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"401":            {401, `{"message":"Unauthorized","statusCode":401}`, `{"status":"error","errorCode":"E0012","error":"Unauthorized. Check REFLY_TOOL_SERVICE_API_KEY."}`},
		"404 page":       {404, `404 page not found`, `{"status":"error","errorCode":"E0003","error":"The tool service answered with status 404 and no explanation. Check REFLY_TOOL_SERVICE_API_URL."}`},
		"redirect":       {302, ``, `{"status":"error","errorCode":"E0000","error":"The tool service answered with status 302 and no explanation. Check REFLY_TOOL_SERVICE_API_URL."}`},
		"200 but no":     {200, `{"success":false,"errCode":"E1020","errMsg":"Toolset not found, please refresh"}`, `{"status":"error","errorCode":"E1020","error":"Toolset not found, please refresh. Check REFLY_TOOL_SERVICE_API_URL."}`},
		"plain data":     {200, `{"success":true,"data":[1]}`, `{"status":"success","data":[1]}`},
		"no data":        {200, `{"success":true}`, `{"status":"success","data":null}`},
		"too deep":       {200, strings.Repeat("[", 100000), `{"status":"error","errorCode":"E0000","error":"The tool service answered with status 200 and no explanation. Check REFLY_TOOL_SERVICE_API_URL."}`},
		"a list":         {200, `[]`, `{"status":"error","errorCode":"E0000","error":"The tool service answered with status 200 and no explanation. Check REFLY_TOOL_SERVICE_API_URL."}`},
		"strange status": {200, `{"success":true,"data":{"status":200}}`, `{"status":"success","data":{"status":200}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, false, func(w http.ResponseWriter, _ *http.Request, _ int) { reply(w, tc.status, tc.body) })
			out, _ := program(t, `show(draw())`, s.env())
			require.JSONEq(t, tc.want, out)
		})
	}
}

// TestUnsendableArguments: what JSON cannot express is an error that names the
// place, and never reaches the service.
func TestUnsendableArguments(t *testing.T) {
	t.Parallel()
	s := newService(t, false, alwaysGood)
	out, _ := program(t, `
import datetime, decimal, sys
loop = []; loop.append(loop)
deep = []
for _ in range(100000): deep = [deep]
class Odd: pass
for value in (float("nan"), [1, {"x": float("-inf")}], b"abc", datetime.date(2020, 1, 2), {1, 2}, {"a": {(1, 2): 3}}, loop, deep, Odd(), decimal.Decimal("1")):
    result = Kinds.scalars(s="x", i=1, n=1.0, b=True, nothing=None, anything=value)
    print(result["status"], result["errorCode"], result["error"])
class Number:
    def tolist(self): return [1, 2.5]
Number.__module__ = "numpy"
print(Kinds.scalars(s="x", i=1, n=1.0, b=True, nothing=None, anything=(Number(), True))["status"])
`, s.env())
	want := strings.TrimLeft(`
error E0003 Invalid arguments: anything is nan, which JSON cannot express. Convert it, then call again.
error E0003 Invalid arguments: anything[1].x is -inf, which JSON cannot express. Convert it, then call again.
error E0003 Invalid arguments: anything is of type bytes, which JSON cannot express (use value.decode() for text, base64 for data). Convert it, then call again.
error E0003 Invalid arguments: anything is of type date, which JSON cannot express (use value.isoformat()). Convert it, then call again.
error E0003 Invalid arguments: anything is of type set, which JSON cannot express (use a list). Convert it, then call again.
error E0003 Invalid arguments: anything.a has a key of type tuple; keys must be strings. Convert it, then call again.
error E0003 Invalid arguments: anything[0] contains itself. Convert it, then call again.
`, "\n")
	require.True(t, strings.HasPrefix(out, want), out)
	rest := strings.Split(strings.TrimSpace(strings.TrimPrefix(out, want)), "\n")
	require.Len(t, rest, 4)
	require.Contains(t, rest[0], "is nested too deeply")
	require.Contains(t, rest[1], "anything is of type Odd")
	require.Contains(t, rest[2], "anything is of type Decimal")
	require.Equal(t, "success", rest[3])
	require.Len(t, s.requests(), 1)
	require.Contains(t, s.requests()[0].Body, `"anything":[[1,2.5],true]`)
}
