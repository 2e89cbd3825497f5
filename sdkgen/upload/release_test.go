package upload_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python"
	"github.com/portico-run/portico/sdkgen/upload"
)

// with is a bundle of toolsets of these keys.
func with(t *testing.T, keys ...string) python.Bundle {
	t.Helper()
	var list []definition.Toolset
	for _, key := range keys {
		list = append(list, definition.Toolset{Key: key, Tools: []definition.Tool{{Name: "go", InputSchema: json.RawMessage(`{}`)}}})
	}
	b, err := python.Generate(list)
	require.NoError(t, err)
	return b
}

// A package that lost toolsets since the last release is refused before a byte
// is written, unless that is wanted.
func TestReleaseRefusesALoss(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s upload.Store) {
		ctx := context.Background()
		release := func(hash string, prune bool, toolsets ...string) error {
			_, err := upload.Release{Prefix: "/p/", Hash: hash, Bundle: with(t, toolsets...), Prune: prune}.To(ctx, s)
			return err
		}
		require.NoError(t, release("one", false, "a", "b", "c"), "nothing was published before")
		require.NoError(t, release("one", false, "a", "b", "c"), "the same again")
		err := release("two", false, "b", "d")
		var lost *upload.LostError
		require.ErrorAs(t, err, &lost)
		require.EqualError(t, err, "the package lost toolsets since one was published: a, c")
		require.Empty(t, keys(t, s, "p/two/"), "nothing was written")
		require.NoError(t, release("three", false, "a", "b", "c", "d"))
		require.EqualError(t, release("two", false, "a", "b", "c"), "the package lost toolsets since three was published: d")
		require.NoError(t, release("two", true, "b", "d"))
		require.NoError(t, release("four", false, "b", "d", "e"), "what was pruned is not missed")
		require.EqualError(t, release("one", false, "a", "b", "c"), "the package lost toolsets since four was published: d, e")
		_, err = upload.Release{Prefix: "other", Hash: "h", Bundle: with(t, "z")}.To(ctx, s)
		require.NoError(t, err, "another prefix has its own history")
		require.Equal(t, []string{"p/.published/000001.json", "p/.published/000002.json", "p/.published/000003.json", "p/.published/000004.json"}, keys(t, s, "p/.published/"))

		require.NoError(t, s.Create(ctx, "p/.published/000005.json", []byte("{")))
		require.ErrorContains(t, release("five", false, "b", "d", "e"), "000005.json is not the record of a release")
		require.Empty(t, keys(t, s, "p/five/"))
	})
}

func TestReleaseRefusesBadNames(t *testing.T) {
	t.Parallel()
	s := upload.Folder(t.TempDir())
	for _, r := range []upload.Release{{Prefix: "../up", Hash: "h"}, {Prefix: "p", Hash: ".published"}} {
		_, err := r.To(context.Background(), s)
		require.Error(t, err)
	}
}

// Of releases at once each is compared with the one before it, and none is
// forgotten.
func TestReleasesRace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s upload.Store) {
		var wg sync.WaitGroup
		problems := make([]error, 6)
		for i := range problems {
			own := with(t, "shared", "own"+strconv.Itoa(i%2))
			wg.Go(func() {
				_, problems[i] = upload.Release{Prefix: "p", Hash: "h" + strconv.Itoa(i%2), Bundle: own}.To(context.Background(), s)
			})
		}
		wg.Wait()
		first := keys(t, s, "p/.published/")
		require.Len(t, first, 1, "the other package lacks a toolset of the one that was first")
		refused := 0
		for _, err := range problems {
			if _, lost := errors.AsType[*upload.LostError](err); lost {
				refused++
				continue
			}
			require.NoError(t, err)
		}
		require.Equal(t, 3, refused)
	})
}
