package account_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/account"
)

// process is a service as the server wires it, over a database of its own
// process or of another one.
func process(t *testing.T, url string, listens bool, now func() time.Time) *account.Service {
	t.Helper()
	var hub wake.Hub
	db := databasetest.OpenURL(t, url, hub.Publish)
	if listens && db.Dialect() == database.Postgres {
		l := wake.NewListener(url, database.Channel, &hub, slog.New(slog.DiscardHandler))
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Stop(t.Context()) })
	}
	return account.New(account.Deps{
		DB: db, TokenKeys: signing.Keys{secret}, TokenLife: time.Hour, Logger: slog.New(slog.DiscardHandler), Now: now, Wake: &hub,
	}).Service
}

// Whatever ends a credential ends it at once in the process that does so, and
// within a second in one that is told nothing. The clock stands still until then,
// so that nothing that is known gets too old before.
func TestRevocationIsNeverMoreThanASecondLate(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			url := databasetest.URL(t, d)
			c := &clock{now: database.Now()}
			here, there := process(t, url, false, c.Now), process(t, url, false, c.Now)
			for name, end := range map[string]func(who actor.Actor, keyID string) error{
				"revoked":  func(who actor.Actor, keyID string) error { return here.RevokeKey(t.Context(), who, keyID) },
				"disabled": func(who actor.Actor, _ string) error { return here.Disable(t.Context(), who.UID, true) },
				"deleted": func(who actor.Actor, _ string) error {
					return here.DeleteUser(t.Context(), account.User{UID: who.UID, Name: "deleted"})
				},
			} {
				u, err := here.CreateUser(t.Context(), name, "")
				if err != nil {
					t.Fatal(err)
				}
				if name == "deleted" {
					if _, err := here.CreateUser(t.Context(), "who-stays", ""); err != nil {
						t.Fatal(err)
					}
				}
				who := actor.Actor{UID: u.UID}
				k, plain, err := here.CreateKey(t.Context(), who, "ci", 0)
				if err != nil {
					t.Fatal(err)
				}
				token, err := here.IssueToken(t.Context(), who)
				if err != nil {
					t.Fatal(err)
				}
				credentials := []httpapi.Credentials{{APIKey: plain.Reveal()}, {Token: token}}
				if name == "revoked" {
					credentials = credentials[:1]
				}
				try := func(s *account.Service, want error) {
					t.Helper()
					for _, one := range credentials {
						got, err := s.Authenticate(t.Context(), one)
						refused := errors.Is(err, account.ErrBadKey) || errors.Is(err, account.ErrBadToken)
						if (want == nil && (err != nil || got.UID != who.UID)) || (want != nil && !refused) {
							t.Errorf("%s: %+v, %v", name, got, err)
						}
					}
				}
				for range 3 { // the first use is noted, after which the key is read again
					try(here, nil)
					try(there, nil)
				}
				if err := end(who, k.ID); err != nil {
					t.Fatal(err)
				}
				try(here, account.ErrBadKey)
				try(there, nil) // not told, and not a second later: it is what is known
				c.advance(time.Second)
				try(there, account.ErrBadKey)
			}
		})
	}
}

// PostgreSQL tells other processes, long before a second has passed: the clock
// stands still.
func TestAnotherProcessIsToldOfARevocation(t *testing.T) {
	t.Parallel()
	url := databasetest.URL(t, database.Postgres)
	c := &clock{now: database.Now()}
	here, there := process(t, url, true, c.Now), process(t, url, true, c.Now)
	u, err := here.CreateUser(t.Context(), "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	k, plain, err := here.CreateKey(t.Context(), actor.Actor{UID: u.UID}, "ci", 0)
	if err != nil {
		t.Fatal(err)
	}
	as := func() error {
		_, err := there.Authenticate(t.Context(), httpapi.Credentials{APIKey: plain.Reveal()})
		return err
	}
	for range 3 {
		if err := as(); err != nil {
			t.Fatal(err)
		}
	}
	if err := here.RevokeKey(t.Context(), actor.Actor{UID: u.UID}, k.ID); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); !errors.Is(as(), account.ErrBadKey); {
		if time.Now().After(deadline) {
			t.Fatal("it was not told")
		}
	}
}

// What is known does not outlive the database.
func TestADatabaseThatIsDownIsNoticedWithinASecond(t *testing.T) {
	t.Parallel()
	c := &clock{now: database.Now()}
	var hub wake.Hub
	db, err := database.Open(t.Context(), database.Config{URL: databasetest.URL(t, database.SQLite), MaxConnections: 2, Notify: hub.Publish})
	if err != nil {
		t.Fatal(err)
	}
	s := account.New(account.Deps{DB: db, TokenKeys: signing.Keys{secret}, TokenLife: time.Hour, Logger: slog.New(slog.DiscardHandler), Now: c.Now, Wake: &hub}).Service
	u, err := s.CreateUser(t.Context(), "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.IssueToken(t.Context(), actor.Actor{UID: u.UID})
	if err != nil {
		t.Fatal(err)
	}
	as := func() error {
		_, err := s.Authenticate(t.Context(), httpapi.Credentials{Token: token})
		return err
	}
	if err := as(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := as(); err != nil {
		t.Error("a fact of this second:", err)
	}
	c.advance(time.Second)
	if err := as(); err == nil {
		t.Error("it is not noticed")
	}
}
