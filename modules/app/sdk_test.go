package app_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/objectstore/objectstoretest"
	"github.com/portico-run/portico/internal/testenv"
)

// A program that imports its tools must not run without them because the
// storage is away: the caller is told to try again.
func TestAnOutageOfTheStorageRefusesPrograms(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	c := objectstoretest.S3Config(t)
	upstream, err := url.Parse(c.Endpoint)
	require.NoError(t, err)
	var away atomic.Bool
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(upstream)
		r.Out.Host = r.In.Host // it is signed
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	s := serve(t, databasetest.URL(t, database.SQLite), "OBJECT_STORAGE_DRIVER=s3", "S3_ENDPOINT="+front.URL, "S3_REGION="+c.Region, "S3_BUCKET="+c.Bucket,
		"S3_ACCESS_KEY="+c.AccessKey, "S3_SECRET_KEY="+c.SecretKey, "SANDBOX_S3LIB_PATH_PREFIX="+objectstoretest.Prefix())
	program := map[string]any{"language": "python", "code": "from refly_tools.demo import Demo\nprint(len(Demo.list_cities(file_name_title='x')))"}

	away.Store(true)
	a := s.send(s.key, "POST", "/v1/sandbox/execute", program)
	require.Equal(t, 503, a.status, a.raw)
	require.Contains(t, a.raw, "does not answer")
	require.NotContains(t, a.raw, "not published")
	require.NotEmpty(t, a.header.Get("Retry-After"))
	require.Zero(t, s.count("SELECT count(*) FROM tool_call_results WHERE tool_name <> 'execute_code'"))

	away.Store(false)
	a = s.send(s.key, "POST", "/v1/sandbox/execute", program)
	require.Equal(t, 200, a.status, a.raw)
	require.Contains(t, a.raw, `"completed"`)

	away.Store(true)
	a = s.send(s.key, "POST", "/v1/sandbox/execute", program)
	require.Equal(t, 200, a.status, "the SDK was read before: "+a.raw)
	require.Contains(t, a.raw, `"completed"`)
}
