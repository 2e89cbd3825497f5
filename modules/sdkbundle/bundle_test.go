package sdkbundle_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/objectstore/objectstoretest"
	"github.com/portico-run/portico/modules/sdkbundle"
)

var anna = actor.Actor{UID: "u-anna", Scope: actor.Full}

func put(t *testing.T, s objectstore.Store, files map[string]string) {
	t.Helper()
	for name, content := range files {
		require.NoError(t, s.Put(t.Context(), name, strings.NewReader(content), "text/plain"))
	}
}

const manifest = `{"version":1,"toolsets":[
	{"key":"fal-image","module":"fal_image","class":"FalImage","code":"fal_image.py","docs":"docs/fal-image.md"},
	{"key":"demo","module":"demo","class":"Demo","code":"demo.py","docs":"docs/demo.md"}]}`

func bundle(hash string) map[string]string {
	at := "sdk/" + hash + "/refly_tools/"
	return map[string]string{
		at + "manifest.json": manifest, at + "__init__.py": "", at + "_toolset.py": "# " + hash,
		at + "fal_image.py": "class FalImage: pass", at + "demo.py": "class Demo: pass",
		at + "docs/fal-image.md": "# Fal", at + "docs/demo.md": "# Demo",
	}
}

func TestBundleIsReadOnceAndSwapped(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		put(t, s, bundle("v1"))
		put(t, s, bundle("v2"))
		counted := &counting{Store: s}
		m := sdkbundle.New(sdkbundle.Deps{Objects: counted}, sdkbundle.Location{PathPrefix: "/sdk/", Hash: "v1"})
		b, err := m.Service.Current(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, "sdk/v1", b.PathPrefix)
		require.Len(t, b.Files, 7)
		require.Equal(t, []string{"fal-image", "demo"}, b.Toolsets())
		require.Equal(t, []string{"gmail"}, b.Missing([]string{"demo", "gmail"}))
		reads := counted.reads.Load()
		_, err = m.Service.Current(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, reads, counted.reads.Load())

		m.Service.Swap(sdkbundle.Location{PathPrefix: "sdk", Hash: "v2"})
		b, err = m.Service.Current(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, "sdk/v2", b.PathPrefix)
	})
}

type counting struct {
	objectstore.Store
	reads atomic.Int64
}

func (c *counting) Get(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	c.reads.Add(1)
	return c.Store.Get(ctx, key, from)
}

func TestContextNeverAdvertisesWhatIsMissing(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		put(t, s, bundle("v1"))
		m := sdkbundle.New(sdkbundle.Deps{Objects: s}, sdkbundle.Location{PathPrefix: "sdk", Hash: "v1"})
		c, err := m.Service.Context(t.Context(), anna, []string{"fal-image", "gmail"})
		require.NoError(t, err)
		require.Equal(t, sdkbundle.Context{
			Toolsets: []sdkbundle.ToolsetRef{{ID: "fal-image", Name: "fal-image", Key: "fal-image"}},
			SDK: sdkbundle.SDK{
				PathPrefix: "sdk/v1",
				Codes:      []sdkbundle.Content{{ToolsetKey: "fal-image", Path: "sdk/v1/refly_tools/fal_image.py", Content: "class FalImage: pass"}},
				Docs:       []sdkbundle.Content{{ToolsetKey: "fal-image", Path: "sdk/v1/refly_tools/docs/fal-image.md", Content: "# Fal"}},
			},
			Missing: []string{"gmail"},
			Classes: map[string]sdkbundle.Class{"demo": {Module: "demo", Name: "Demo"}, "fal-image": {Module: "fal_image", Name: "FalImage"}},
		}, c)
		c, err = m.Service.Context(t.Context(), anna, nil)
		require.NoError(t, err)
		require.Len(t, c.Toolsets, 2)
		require.Empty(t, c.Missing)
	})
}

func TestBundleOfAnotherGenerator(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		put(t, s, map[string]string{"p/h/refly_tools/fal_image.py": "x", "p/h/refly_tools/_toolset.py": "y", "p/h/refly_tools/sub/z.py": "z"})
		m := sdkbundle.New(sdkbundle.Deps{Objects: s}, sdkbundle.Location{PathPrefix: "p", Hash: "h"})
		c, err := m.Service.Context(t.Context(), anna, nil)
		require.NoError(t, err)
		require.Len(t, c.Toolsets, 1)
		require.Equal(t, "fal_image", c.Toolsets[0].Key)
		require.Empty(t, c.SDK.Docs)
	})
}

// Which class of a module has the tools, and whose they are, is read from the
// module where there is no manifest.
func TestClassesOfAnotherGenerator(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		at := objectstoretest.Prefix() // the bucket outlives the test
		put(t, s, map[string]string{
			at + "/h/refly_tools/_toolset.py":       "class ToolsetBase:\n    _toolset_key = 'base'\n",
			at + "/h/refly_tools/fal_image.py":      "from ._toolset import ToolsetBase\n\nclass FalError(Exception):\n    pass\n\nclass Size:\n    pass\n\nclass FalImage( ToolsetBase ) :\n    _toolset_key: str = \"fal-image\"\n",
			at + "/h/refly_tools/gmail.py":          "class GmailError(ValueError): pass\n\nclass Gmail:\n    pass\n",
			at + "/h/refly_tools/functions.py":      "def f(): pass\n",
			at + "/h/refly_tools/docs/gmail.md":     "# Gmail",
			at + "/h/refly_tools/docs/fal_image.md": "# Fal",
		})
		m := sdkbundle.New(sdkbundle.Deps{Objects: s}, sdkbundle.Location{PathPrefix: at, Hash: "h"})
		c, err := m.Service.Context(t.Context(), anna, []string{"fal-image", "gmail", "functions", "fal_image"})
		require.NoError(t, err)
		require.Equal(t, map[string]sdkbundle.Class{"fal-image": {Module: "fal_image", Name: "FalImage"}, "gmail": {Module: "gmail", Name: "Gmail"}}, c.Classes)
		require.Equal(t, []string{"fal_image"}, c.Missing)
		docs := map[string]string{}
		for _, d := range c.SDK.Docs {
			docs[d.ToolsetKey] = d.Content
		}
		require.Equal(t, map[string]string{"fal-image": "# Fal", "gmail": "# Gmail"}, docs)
	})
}

func TestBundleThatIsNotThere(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		put(t, s, map[string]string{
			"p/bad/refly_tools/manifest.json": "{", "p/half/refly_tools/manifest.json": manifest, "p/none/refly_tools/_toolset.py": "",
		})
		for _, hash := range []string{"nothing", "bad", "half", "none"} {
			m := sdkbundle.New(sdkbundle.Deps{Objects: s}, sdkbundle.Location{PathPrefix: "p", Hash: hash})
			_, err := m.Service.Current(t.Context(), anna)
			require.ErrorIs(t, err, sdkbundle.ErrMissing, hash)
		}
		// It is found once it is published, without a restart.
		late := objectstoretest.Prefix() // the bucket outlives the test
		m := sdkbundle.New(sdkbundle.Deps{Objects: s}, sdkbundle.Location{PathPrefix: "sdk", Hash: late})
		_, err := m.Service.Current(t.Context(), anna)
		require.ErrorIs(t, err, sdkbundle.ErrMissing)
		put(t, s, bundle(late))
		_, err = m.Service.Current(t.Context(), anna)
		require.NoError(t, err)
	})
}

func TestPublishNamesTheBundleOfTheCaller(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		put(t, s, bundle("for-u-anna"))
		publish := func(_ context.Context, a actor.Actor, prefix string) (string, error) {
			if a.UID != anna.UID || prefix != "sdk" {
				return "", errors.New("not published")
			}
			return "for-" + a.UID, nil
		}
		m := sdkbundle.New(sdkbundle.Deps{Objects: s, Publish: publish}, sdkbundle.Location{PathPrefix: "sdk/"})
		b, err := m.Service.Current(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, "sdk/for-u-anna", b.PathPrefix)
		_, err = m.Service.Current(t.Context(), actor.Actor{UID: "u-ben"})
		require.EqualError(t, err, "not published")
	})
}

// outage is a storage that can be cut off.
type outage struct {
	objectstore.Store
	list, get atomic.Bool
}

var errCut = errors.New("dial tcp: connection refused")

func (o *outage) List(ctx context.Context, prefix string) ([]string, error) {
	if o.list.Load() {
		return nil, errCut
	}
	return o.Store.List(ctx, prefix)
}

func (o *outage) Get(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	if o.get.Load() {
		return nil, errCut
	}
	return o.Store.Get(ctx, key, from)
}

func TestAnOutageIsNotAMissingBundle(t *testing.T) {
	t.Parallel()
	objectstoretest.Each(t, func(t *testing.T, s objectstore.Store) {
		put(t, s, bundle("v1"))
		put(t, s, bundle("v2"))
		cut := &outage{Store: s}
		m := sdkbundle.New(sdkbundle.Deps{Objects: cut}, sdkbundle.Location{PathPrefix: "sdk", Hash: "v1"})
		for _, part := range []*atomic.Bool{&cut.list, &cut.get} {
			part.Store(true)
			_, err := m.Service.Current(t.Context(), anna)
			require.ErrorIs(t, err, sdkbundle.ErrUnreachable)
			require.NotErrorIs(t, err, sdkbundle.ErrMissing)
			require.ErrorIs(t, err, errCut, "the cause is for the log")
			require.Equal(t, 503, errs.CodeOf(err).Status())
			part.Store(false)
		}
		_, err := m.Service.Current(t.Context(), anna)
		require.NoError(t, err, "an outage is not remembered")

		cut.list.Store(true)
		cut.get.Store(true)
		b, err := m.Service.Current(t.Context(), anna)
		require.NoError(t, err, "a bundle that was read is there during an outage")
		require.Equal(t, "sdk/v1", b.PathPrefix)
		m.Service.Swap(sdkbundle.Location{PathPrefix: "sdk", Hash: "v2"})
		_, err = m.Service.Current(t.Context(), anna)
		require.ErrorIs(t, err, sdkbundle.ErrUnreachable, "another bundle is not the one in force")
	})
}

// blocked is a storage whose lists wait.
type blocked struct {
	objectstore.Store
	begun   chan struct{} // a list has begun
	release chan struct{}
}

func (b *blocked) List(ctx context.Context, prefix string) ([]string, error) {
	b.begun <- struct{}{}
	select {
	case <-b.release:
		return b.Store.List(ctx, prefix)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// While one bundle is read from a storage that is slow, others are there, and
// who gives up does not fail who waits.
func TestASlowStorageHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := objectstoretest.Folder(t)
	put(t, s, bundle("v1"))
	put(t, s, bundle("v2"))
	slow := &blocked{Store: s, begun: make(chan struct{}, 9), release: make(chan struct{}, 1)}
	m := sdkbundle.New(sdkbundle.Deps{Objects: slow}, sdkbundle.Location{PathPrefix: "sdk", Hash: "v1"})
	slow.release <- struct{}{}
	_, err := m.Service.Current(t.Context(), anna)
	require.NoError(t, err)
	<-slow.begun

	m.Service.Swap(sdkbundle.Location{PathPrefix: "sdk", Hash: "v2"})
	impatient, leave := context.WithCancel(t.Context())
	answers := make(chan error, 2)
	for _, ctx := range []context.Context{impatient, t.Context()} {
		go func() {
			_, err := m.Service.Current(ctx, anna)
			answers <- err
		}()
	}
	<-slow.begun
	m.Service.Swap(sdkbundle.Location{PathPrefix: "sdk", Hash: "v1"})
	_, err = m.Service.Current(t.Context(), anna)
	require.NoError(t, err, "a bundle that is in memory waits for no other")
	m.Service.Swap(sdkbundle.Location{PathPrefix: "sdk", Hash: "v2"})
	leave()
	require.ErrorIs(t, <-answers, context.Canceled)
	slow.release <- struct{}{}
	require.NoError(t, <-answers)
}
