package objectstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/objectstore/objectstoretest"
)

const text = "text/plain"

func put(t *testing.T, s objectstore.Store, key, body string) {
	t.Helper()
	if err := s.Put(t.Context(), key, strings.NewReader(body), text); err != nil {
		t.Fatal(err)
	}
}

func TestPutGetListDelete(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		p := objectstoretest.Prefix()
		put(t, s, p+"/a/1.txt", "one")
		put(t, s, p+"/a/2 ü+&%.txt", "two")
		put(t, s, p+"/ab", "three")
		put(t, s, p+"/a/1.txt", "ONE")

		got, err := objectstore.Read(t.Context(), s, p+"/a/1.txt", 100)
		if err != nil || string(got) != "ONE" {
			t.Errorf("read %q, %v", got, err)
		}
		for prefix, want := range map[string][]string{
			p + "/a":      {p + "/a/1.txt", p + "/a/2 ü+&%.txt", p + "/ab"},
			p + "/a/":     {p + "/a/1.txt", p + "/a/2 ü+&%.txt"},
			p + "/nobody": nil,
		} {
			keys, err := s.List(t.Context(), prefix)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, keys); diff != "" {
				t.Errorf("list %q: %s", prefix, diff)
			}
		}
		for range 2 {
			if err := s.Delete(t.Context(), p+"/ab"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Get(t.Context(), p+"/ab", 0); !errors.Is(err, objectstore.ErrNotFound) {
			t.Errorf("get a deleted object: %v", err)
		}
	})
}

func TestPartsOfObjects(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		key := objectstoretest.Prefix() + "/part"
		put(t, s, key, "12345")
		for from, want := range map[int64]string{0: "12345", 3: "45", 5: "", 100: ""} {
			r, err := s.Get(t.Context(), key, from)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil || string(got) != want {
				t.Errorf("from %d: %q, %v", from, got, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestReadRefusesMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		key := objectstoretest.Prefix() + "/big"
		put(t, s, key, "12345")
		if _, err := objectstore.Read(t.Context(), s, key, 4); err == nil {
			t.Error("five bytes were read under a limit of four")
		}
		if b, err := objectstore.Read(t.Context(), s, key, 5); err != nil || len(b) != 5 {
			t.Errorf("five bytes under a limit of five: %d, %v", len(b), err)
		}
	})
}

func TestNamesCannotLeaveTheStore(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		for _, key := range []string{"", ".", "..", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "a\x00b", `a\b`, "\xff"} {
			if err := s.Put(t.Context(), key, strings.NewReader(""), text); err == nil {
				t.Errorf("put %q succeeded", key)
			}
			if _, err := s.Get(t.Context(), key, 0); err == nil {
				t.Errorf("get %q succeeded", key)
			}
			if err := s.Delete(t.Context(), key); err == nil {
				t.Errorf("delete %q succeeded", key)
			}
		}
	})
}

func TestReadersNeverSeeAPart(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		key := objectstoretest.Prefix() + "/shared"
		put(t, s, key, "")
		const size = 1 << 16
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for range 5 {
					body := bytes.Repeat([]byte(fmt.Sprint(i)), size)
					if err := s.Put(t.Context(), key, bytes.NewReader(body), text); err != nil {
						t.Error(err)
					}
					got, err := objectstore.Read(t.Context(), s, key, size)
					if err != nil || (len(got) != size && len(got) != 0) || bytes.Count(got, got[:min(1, len(got))]) != len(got) {
						t.Errorf("a mixed or partial object: %d bytes, %v", len(got), err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestS3RefusesBadCredentials(t *testing.T) {
	t.Parallel()
	c := objectstoretest.S3Config(t)
	c.SecretKey += "x"
	s, err := objectstore.NewS3(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "x", strings.NewReader(""), text); err == nil {
		t.Error("a wrong secret key was accepted")
	}
}
