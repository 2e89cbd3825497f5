package wake_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/wake"
)

const patience = 10 * time.Second

func waitFor(t *testing.T, woken <-chan struct{}) {
	t.Helper()
	select {
	case <-woken:
	case <-time.After(patience):
		t.Fatal("no wake-up")
	}
}

func TestHubWakesOnlyTheTopicsReaders(t *testing.T) {
	t.Parallel()
	var hub wake.Hub
	a1, cancel1 := hub.Subscribe("a")
	a2, cancel2 := hub.Subscribe("a")
	b, cancelB := hub.Subscribe("b")
	defer cancelB()

	hub.Publish("a")
	hub.Publish("a")
	waitFor(t, a1)
	waitFor(t, a2)
	if len(a1) != 0 || len(b) != 0 {
		t.Error("a second or a foreign wake-up arrived")
	}
	cancel1()
	hub.PublishAll()
	waitFor(t, a2)
	waitFor(t, b)
	if len(a1) != 0 {
		t.Error("an ended subscription was woken")
	}
	cancel2()
}

func TestFollowersAreToldOfTheirKind(t *testing.T) {
	t.Parallel()
	var hub wake.Hub
	var told []string
	hub.Follow("key", func(id string) { told = append(told, id) })
	for _, topic := range []string{wake.Topic("key", "u-1"), wake.Topic("keys", "u-2"), "ar-1", "key", wake.Topic("key", "")} {
		hub.Publish(topic)
	}
	hub.PublishAll()
	if !slices.Equal(told, []string{"u-1", "", ""}) {
		t.Errorf("%q", told)
	}
}

func TestListenerWakesAnotherProcess(t *testing.T) {
	t.Parallel()
	address := databasetest.URL(t, database.Postgres)
	writer := databasetest.OpenURL(t, address, nil)

	var hub wake.Hub
	listener := wake.NewListener(address, database.Channel, &hub, slog.New(slog.DiscardHandler))
	if err := listener.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	woken, cancel := hub.Subscribe("ar-1")
	defer cancel()
	notify := func() {
		t.Helper()
		if err := writer.InTx(t.Context(), func(tx database.Tx) error { return tx.Notify("ar-1") }); err != nil {
			t.Fatal(err)
		}
	}
	notify()
	waitFor(t, woken)

	// The connection dies; the listener comes back and wakes everybody.
	admin, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, woken)
	notify()
	waitFor(t, woken)

	if err := listener.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := listener.Stop(t.Context()); err != nil {
		t.Fatal("a second Stop fails:", err)
	}
	if err := admin.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, goleak.IgnoreCurrent())
}
