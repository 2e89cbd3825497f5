// Package objectstoretest gives tests real object stores.
package objectstoretest

import (
	"testing"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/testenv"
)

// Prefix keeps the objects of one test apart in a shared bucket.
func Prefix() string { return ids.New("test") }

// Folder returns a store in a folder that goes away with the test.
func Folder(t *testing.T) *objectstore.Folder {
	t.Helper()
	f, err := objectstore.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// S3Config returns the address of the S3 server the test script started.
func S3Config(t *testing.T) objectstore.S3Config {
	t.Helper()
	get := func(name string) string {
		return testenv.Need(t, "PORTICO_TEST_S3_"+name, "tools/s3.sh start and env give it")
	}
	return objectstore.S3Config{
		Endpoint: get("ENDPOINT"), Region: get("REGION"), Bucket: get("BUCKET"),
		AccessKey: get("ACCESS_KEY"), SecretKey: get("SECRET_KEY"), PathStyle: true,
	}
}

// Each runs a test once per kind of store.
func Each(t *testing.T, test func(t *testing.T, s objectstore.Store)) {
	t.Helper()
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		test(t, Folder(t))
	})
	t.Run("s3", func(t *testing.T) {
		t.Parallel()
		s, err := objectstore.NewS3(t.Context(), S3Config(t))
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}
