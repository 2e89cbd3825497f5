package sdkbundle_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/objectstore/objectstoretest"
	"github.com/portico-run/portico/modules/sdkbundle"
)

// demo is what a user's SDK is made from.
func demo(context.Context, actor.Actor) ([]byte, error) {
	return []byte(`[{"key":"demo","name":"Demo","tools":[{"name":"list_cities","description":"Lists cities.","inputSchema":{"type":"object","properties":{}}}]}]`), nil
}

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
	storage := &slow{Store: objectstoretest.Folder(t), begun: make(chan struct{}, 1), let: make(chan error, 1)}
	publish := sdkbundle.NewPublisher(demo, storage).Publish
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
	storage := &slow{Store: objectstoretest.Folder(t), begun: make(chan struct{}, 1), let: make(chan error, 1)}
	publish := sdkbundle.NewPublisher(demo, storage).Publish
	cut := errors.New("connection refused")
	storage.let <- cut
	_, err := publish(t.Context(), anna, "one")
	require.ErrorIs(t, err, sdkbundle.ErrUnreachable)
	require.ErrorIs(t, err, cut)
	_, err = publish(t.Context(), anna, "one")
	require.NoError(t, err, "an outage is not remembered")
}
