package app_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/objectstore/objectstoretest"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/sdkbundle"
)

// slow is a storage that writes when it is let, and may fail to.
type slow struct {
	objectstore.Store
	writes atomic.Int64
	begun  chan struct{}
	let    chan error
}

func (s *slow) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string) error {
	if s.writes.Add(1) == 1 {
		s.begun <- struct{}{}
		if err := <-s.let; err != nil {
			return err
		}
	}
	return s.Store.Put(ctx, key, body, contentType)
}

// While the SDK of one user is published, that of another is there, and callers
// with the same toolsets wait for one publication.
func TestPublishingAnSDKHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	storage := &slow{Store: objectstoretest.Folder(t), begun: make(chan struct{}, 1), let: make(chan error, 1)}
	publish := app.Publisher(s.app, storage)
	anna := actor.Actor{UID: "u-anna"}
	storage.let <- nil
	known, err := publish(t.Context(), anna, "one")
	require.NoError(t, err)
	<-storage.begun

	storage.writes.Store(0)
	impatient, leave := context.WithCancel(t.Context())
	type answer struct {
		hash string
		err  error
	}
	left, stayed := make(chan answer, 1), make(chan answer, 1)
	go func() { hash, err := publish(impatient, anna, "two"); left <- answer{hash, err} }()
	<-storage.begun
	go func() { hash, err := publish(t.Context(), anna, "two"); stayed <- answer{hash, err} }()
	again := make(chan answer, 1)
	go func() { hash, err := publish(t.Context(), anna, "one"); again <- answer{hash, err} }()
	select {
	case a := <-again:
		require.NoError(t, a.err)
		require.Equal(t, known, a.hash)
	case <-time.After(10 * time.Second):
		t.Error("what is published waits for what is not")
	}
	storage.let <- nil
	require.Equal(t, known, (<-stayed).hash)
	leave()
	<-left
}

func TestAnSDKThatCannotBePublishedIsAnOutage(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	storage := &slow{Store: objectstoretest.Folder(t), begun: make(chan struct{}, 1), let: make(chan error, 1)}
	publish := app.Publisher(s.app, storage)
	cut := errors.New("connection refused")
	storage.let <- cut
	_, err := publish(t.Context(), actor.Actor{UID: "u-anna"}, "one")
	require.ErrorIs(t, err, sdkbundle.ErrUnreachable)
	require.ErrorIs(t, err, cut)
	_, err = publish(t.Context(), actor.Actor{UID: "u-anna"}, "one")
	require.NoError(t, err, "an outage is not remembered")
}

// A program that imports its tools must not run without them because the
// storage is away: the caller is told to try again.
func TestAnOutageOfTheStorageRefusesPrograms(t *testing.T) {
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
