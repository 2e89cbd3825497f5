package upload_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python"
	"github.com/portico-run/portico/sdkgen/upload"
)

func bundle(t *testing.T, tools ...string) python.Bundle {
	t.Helper()
	ts := definition.Toolset{Key: "demo", Name: "Demo"}
	for _, name := range tools {
		ts.Tools = append(ts.Tools, definition.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	b, err := python.Generate([]definition.Toolset{ts})
	require.NoError(t, err)
	return b
}

func newS3(t *testing.T) upload.Store {
	t.Helper()
	srv := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(srv.Close)
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(srv.URL), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("access", "secret", ""),
	})
	_, err := client.CreateBucket(context.Background(), &s3.CreateBucketInput{Bucket: aws.String("sdk")})
	require.NoError(t, err)
	store, err := upload.NewS3(upload.S3Config{Endpoint: srv.URL, Bucket: "sdk", AccessKey: "access", SecretKey: "secret"})
	require.NoError(t, err)
	return store
}

// each runs a test on every kind of store.
func each(t *testing.T, test func(t *testing.T, s upload.Store)) {
	t.Helper()
	t.Run("folder", func(t *testing.T) { t.Parallel(); test(t, upload.Folder(t.TempDir())) })
	t.Run("s3", func(t *testing.T) { t.Parallel(); test(t, newS3(t)) })
}

func keys(t *testing.T, s upload.Store, prefix string) []string {
	t.Helper()
	list, err := s.List(context.Background(), prefix)
	require.NoError(t, err)
	slices.Sort(list)
	return list
}

func TestPublish(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s upload.Store) {
		ctx := context.Background()
		b := bundle(t, "a")
		var order []string
		n, err := upload.Publish(ctx, s, upload.Release{Prefix: "/some/prefix/", Hash: "h1", Bundle: b, Progress: func(p string) { order = append(order, p) }})
		require.NoError(t, err)
		require.Equal(t, len(b.Files), n)
		require.Equal(t, "manifest.json", order[len(order)-1], "the manifest marks a complete bundle")

		var want []string
		for _, f := range b.Files {
			key := "some/prefix/h1/refly_tools/" + f.Path
			want = append(want, key)
			got, err := s.Get(ctx, key)
			require.NoError(t, err)
			require.Equal(t, string(f.Content), string(got))
		}
		require.Contains(t, want, "some/prefix/h1/refly_tools/docs/demo.md")
		require.Empty(t, cmp.Diff(want, keys(t, s, "some/prefix/h1/")))

		n, err = upload.Publish(ctx, s, upload.Release{Prefix: "some/prefix", Hash: "h1", Bundle: b})
		require.NoError(t, err)
		require.Zero(t, n, "the same again writes nothing")

		_, err = upload.Publish(ctx, s, upload.Release{Prefix: "some/prefix", Hash: "h1", Bundle: bundle(t, "a", "b")})
		require.ErrorIs(t, err, upload.ErrDifferent)
		got, err := s.Get(ctx, "some/prefix/h1/refly_tools/docs/demo.md")
		require.NoError(t, err)
		require.NotContains(t, string(got), "## b", "nothing was overwritten")

		_, err = upload.Publish(ctx, s, upload.Release{Prefix: "some/prefix", Hash: "h2", Bundle: bundle(t, "a", "b")})
		require.NoError(t, err)
	})
}

// interrupted fails the third write, as a lost connection would.
type interrupted struct {
	upload.Store
	writes int
}

var errLost = errors.New("connection lost")

func (i *interrupted) Create(ctx context.Context, key string, content []byte) error {
	if i.writes++; i.writes == 3 {
		return errLost
	}
	return i.Store.Create(ctx, key, content)
}

func TestPublishContinuesAfterAnInterruption(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s upload.Store) {
		b := bundle(t, "a")
		n, err := upload.Publish(context.Background(), &interrupted{Store: s}, upload.Release{Prefix: "p", Hash: "h", Bundle: b})
		require.ErrorIs(t, err, errLost)
		require.Equal(t, 2, n)
		require.NotContains(t, keys(t, s, "p/h/"), "p/h/refly_tools/manifest.json")
		n, err = upload.Publish(context.Background(), s, upload.Release{Prefix: "p", Hash: "h", Bundle: b})
		require.NoError(t, err)
		require.Equal(t, len(b.Files)-2, n)
	})
}

func TestPublishRefusesForeignFiles(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s upload.Store) {
		require.NoError(t, s.Create(context.Background(), "p/h/refly_tools/other.py", []byte("x")))
		_, err := upload.Publish(context.Background(), s, upload.Release{Prefix: "p", Hash: "h", Bundle: bundle(t, "a")})
		require.ErrorIs(t, err, upload.ErrDifferent)
		require.Len(t, keys(t, s, "p/h/"), 1, "nothing was written")
	})
}

func TestCreateNeverReplaces(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s upload.Store) {
		ctx := context.Background()
		require.NoError(t, s.Create(ctx, "a/b", []byte("first")))
		require.ErrorIs(t, s.Create(ctx, "a/b", []byte("second")), upload.ErrExists)
		got, err := s.Get(ctx, "a/b")
		require.NoError(t, err)
		require.Equal(t, "first", string(got))
		_, err = s.Get(ctx, "a/missing")
		require.Error(t, err)
	})
}

func TestPublishersRace(t *testing.T) {
	t.Parallel()
	s := upload.Folder(t.TempDir())
	b := bundle(t, "a", "b", "c")
	var wg sync.WaitGroup
	problems := make([]error, 8)
	for i := range problems {
		wg.Go(func() {
			_, problems[i] = upload.Publish(context.Background(), s, upload.Release{Prefix: "p", Hash: "h", Bundle: b})
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(problems...))
	require.Len(t, keys(t, s, "p/h/"), len(b.Files))
}

func TestPublishRefusesBadNames(t *testing.T) {
	t.Parallel()
	s := upload.Folder(t.TempDir())
	for _, hash := range []string{"", "..", "a/b", ".x", strings.Repeat("h", 65), "a b"} {
		_, err := upload.Publish(context.Background(), s, upload.Release{Prefix: "p", Hash: hash, Bundle: bundle(t, "a")})
		require.ErrorContains(t, err, "hash", hash)
	}
	_, err := upload.Publish(context.Background(), s, upload.Release{Prefix: "../up", Hash: "h", Bundle: bundle(t, "a")})
	require.ErrorContains(t, err, "must not lead upwards")
}

func TestS3Failures(t *testing.T) {
	t.Parallel()
	_, err := upload.NewS3(upload.S3Config{})
	require.ErrorContains(t, err, "no bucket, no access key, no secret key")
	srv := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(srv.Close)
	s, err := upload.NewS3(upload.S3Config{Endpoint: srv.URL, Bucket: "nowhere", AccessKey: "a", SecretKey: "topsecret"})
	require.NoError(t, err)
	_, err = upload.Publish(context.Background(), s, upload.Release{Prefix: "p", Hash: "h", Bundle: bundle(t, "a")})
	require.ErrorContains(t, err, "nowhere")
	require.NotContains(t, err.Error(), "topsecret")
}

func TestPackageRoundTrip(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	_, err := upload.ReadPackage(out)
	require.ErrorIs(t, err, upload.ErrNoPackage)

	first := bundle(t, "a")
	dir, err := upload.WritePackage(out, first)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "__pycache__"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "__pycache__", "x.pyc"), nil, 0o600))
	got, err := upload.ReadPackage(out)
	require.NoError(t, err)
	require.Equal(t, first.Hash(), got.Hash())
	require.Empty(t, cmp.Diff(first.Toolsets, got.Toolsets))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "stale.py"), nil, 0o600))
	_, err = upload.WritePackage(out, python.Bundle{})
	require.Error(t, err, "there is nothing to put in its place")
	_, err = upload.ReadPackage(out)
	require.NoError(t, err, "the package is where it was")
	second := bundle(t, "a", "b")
	_, err = upload.WritePackage(out, second)
	require.NoError(t, err)
	got, err = upload.ReadPackage(out)
	require.NoError(t, err)
	require.Equal(t, second.Hash(), got.Hash(), "the package is replaced as a whole")
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, entries, 1, "temporary folders are gone")
}

// A folder has one writer at a time; the next one waits, as long as it wants to.
func TestLock(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "new")
	unlock, err := upload.Lock(t.Context(), out)
	require.NoError(t, err)
	impatient, leave := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer leave()
	_, err = upload.Lock(impatient, out)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "another program that writes to "+out)

	locked := make(chan error, 1)
	go func() {
		again, err := upload.Lock(t.Context(), out)
		if err == nil {
			err = again()
		}
		locked <- err
	}()
	require.NoError(t, unlock())
	require.NoError(t, <-locked)
}
