package account_test

import (
	"errors"
	"testing"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/account"
)

// A key of a program outside executes tools until its moment, until the next one
// of the program, or until the program ends; no list shows it.
func TestKeyOfAProgramOutside(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		b := setup(t, db)
		good := func(k account.Plaintext) bool {
			t.Helper()
			who, err := b.as(t.Context(), k.Reveal())
			if err != nil && !errors.Is(err, account.ErrBadKey) {
				t.Fatal(err)
			}
			return err == nil && who.UID == b.alice.UID && who.Scope == actor.ToolExecute
		}
		create := func(callID string) account.Plaintext {
			t.Helper()
			k, err := b.CallKey(t.Context(), b.alice, callID, b.clock.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		first, other := create("call-1"), create("call-2")
		second := create("call-1")
		if good(first) || !good(second) || !good(other) {
			t.Error("a new key ends the one before of its program, and no other")
		}
		if keys, err := b.Keys(t.Context(), b.alice); err != nil || len(keys) != 0 {
			t.Errorf("listed: %v, %v", keys, err)
		}
		if err := b.EndCallKey(t.Context(), b.alice, "call-1"); err != nil {
			t.Fatal(err)
		}
		if good(second) || !good(other) {
			t.Error("the end of a program is the end of its key")
		}
		b.clock.advance(time.Hour + time.Second)
		if good(other) {
			t.Error("good after its moment")
		}
	})
}
