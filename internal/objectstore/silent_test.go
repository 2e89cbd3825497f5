package objectstore_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/objectstore"
)

// silent is a store whose server sends a head and a piece of an object, where it
// is asked for one named "begun", and nothing else.
func silent(t *testing.T, patience time.Duration) *objectstore.S3 {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/begun") {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
		}
		<-over
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	s, err := objectstore.NewS3(t.Context(), objectstore.S3Config{
		Endpoint: server.URL, Region: "here", Bucket: "b", AccessKey: "k", SecretKey: "s", PathStyle: true, Patience: patience,
	})
	require.NoError(t, err)
	return s
}

func TestAServerThatDoesNotAnswerHoldsNobody(t *testing.T) {
	t.Parallel()
	s := silent(t, 50*time.Millisecond)
	_, missing := s.Get(t.Context(), "a", 0)
	_, listed := s.List(t.Context(), "a")
	for name, err := range map[string]error{
		"put": s.Put(t.Context(), "a", strings.NewReader("a"), text), "get": missing, "list": listed, "delete": s.Delete(t.Context(), "a"),
	} {
		require.ErrorContains(t, err, "the object storage does not answer", name)
	}
}

func TestAnObjectThatBreaksOffHoldsNobody(t *testing.T) {
	t.Parallel()
	body, err := silent(t, 3*time.Second).Get(t.Context(), "begun", 0)
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.ErrorContains(t, err, "the object storage does not answer")
	require.Equal(t, "begun", string(got))
	require.NoError(t, body.Close())
}
