package account_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/modules/account"
)

var secret = []byte("a secret of thirty-two bytes, at least")

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type bundle struct {
	*account.Service
	db    *database.DB
	clock *clock
	alice actor.Actor
	bob   actor.Actor
}

func setup(t *testing.T, db *database.DB) bundle {
	t.Helper()
	c := &clock{now: database.Now()}
	s := account.New(account.Deps{
		DB: db, TokenKeys: signing.Keys{secret}, TokenLife: time.Hour, Logger: slog.New(slog.DiscardHandler), Now: c.Now,
	}).Service
	user := func(name string) actor.Actor {
		u, err := s.CreateUser(t.Context(), name, name+"@example.com")
		if err != nil {
			t.Fatal(err)
		}
		return actor.Actor{UID: u.UID}
	}
	return bundle{s, db, c, user("alice"), user("bob")}
}

func (b bundle) key(t *testing.T, days int) (account.Key, string) {
	t.Helper()
	k, plain, err := b.CreateKey(t.Context(), b.alice, "ci", days)
	if err != nil {
		t.Fatal(err)
	}
	return k, plain.Reveal()
}

func (b bundle) as(ctx context.Context, key string) (actor.Actor, error) {
	return b.Authenticate(ctx, httpapi.Credentials{APIKey: key})
}

// The vectors of docs/wire/refly.md#api-keys.
func TestKeyVectors(t *testing.T) {
	t.Parallel()
	var counting, zero, ones [24]byte
	for i := range counting {
		counting[i], ones[i] = byte(i), 0xff
	}
	if got := account.EncodeKey(counting).Reveal(); got != "rf_00A7dl5PEW67zZCpFU9uKaHnGgOvQKAR" {
		t.Errorf("bytes 0..23: %s", got)
	}
	if got := account.EncodeKey(zero).Reveal(); got != "rf_"+strings.Repeat("0", 32) {
		t.Errorf("zeros: %s", got)
	}
	if got := account.EncodeKey(ones).Reveal(); len(got) != len("rf_")+33 {
		t.Errorf("ones: %s", got)
	}
}

func TestAPlaintextPrintsAsItsBeginning(t *testing.T) {
	t.Parallel()
	key := account.EncodeKey([24]byte{1})
	b, err := json.Marshal(map[string]any{"key": key})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", key)
	for _, printed := range []string{fmt.Sprint(key), fmt.Sprintf("%#v %+v %q", key, key, key), string(b), log.String()} {
		if strings.Contains(printed, key.Reveal()) || !strings.Contains(printed, key.Reveal()[:12]) {
			t.Errorf("printed as %s", printed)
		}
	}
}

func TestLifeOfAKey(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		b := setup(t, db)
		k, plain := b.key(t, 1)
		if !regexp.MustCompile(`^rf_[0-9A-Za-z]{32,33}$`).MatchString(plain) || k.Prefix != plain[:12] {
			t.Errorf("key %s with prefix %s", plain, k.Prefix)
		}
		who, err := b.as(t.Context(), plain)
		if err != nil || who.UID != b.alice.UID || who.KeyID != k.ID || who.Scope != actor.Full {
			t.Errorf("%+v, %v", who, err)
		}
		keys, err := b.Keys(t.Context(), b.alice)
		if err != nil || len(keys) != 1 || keys[0].LastUsedAt == nil {
			t.Errorf("%+v, %v", keys, err)
		}
		b.clock.advance(25 * time.Hour)
		if _, err := b.as(t.Context(), plain); !errors.Is(err, account.ErrBadKey) {
			t.Errorf("expired: %v", err)
		}
		k, plain = b.key(t, 0)
		if err := b.RenameKey(t.Context(), b.alice, k.ID, " other "); err != nil {
			t.Fatal(err)
		}
		if err := b.RevokeKey(t.Context(), b.alice, k.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.as(t.Context(), plain); !errors.Is(err, account.ErrBadKey) {
			t.Errorf("revoked: %v", err)
		}
		if err := b.RevokeKey(t.Context(), b.alice, k.ID); !errors.Is(err, account.ErrKeyMissing) {
			t.Errorf("revoked twice: %v", err)
		}
		for _, bad := range []string{"", "rf_", "rf_unknown", plain + "x", strings.ToLower(plain)} {
			if _, err := b.as(t.Context(), bad); errs.CodeOf(err) != errs.Unauthorized {
				t.Errorf("%q: %v", bad, err)
			}
		}
		for name, days := range map[string]int{" ": 0, strings.Repeat("x", 101): 0, "ok": -1, "also ok": 3651} {
			if _, _, err := b.CreateKey(t.Context(), b.alice, name, days); errs.CodeOf(err) != errs.Invalid {
				t.Errorf("key %q for %d days: %v", name, days, err)
			}
		}
	})
}

// The database cannot give away a key: it has the SHA-256, and the beginning
// that lists show.
func TestKeysAreStoredAsHashes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		b := setup(t, db)
		_, lasting := b.key(t, 0)
		temporary, err := b.TemporaryKey(t.Context(), b.alice)
		if err != nil {
			t.Fatal(err)
		}
		for _, plain := range []string{lasting, temporary.Reveal()} {
			sum := sha256.Sum256([]byte(plain))
			var rows []map[string]any
			if err := database.Unscoped(db.Read(t.Context())).Table("user_api_keys").Where("key_hash = ?", hex.EncodeToString(sum[:])).Find(&rows).Error; err != nil || len(rows) != 1 {
				t.Fatalf("%d keys of this hash, %v", len(rows), err)
			}
			for column, value := range rows[0] {
				if strings.Contains(fmt.Sprint(value), plain) {
					t.Errorf("%s holds the key", column)
				}
			}
		}
	})
}

func TestTemporaryKeys(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		b := setup(t, db)
		temporary := func() string {
			t.Helper()
			plain, err := b.TemporaryKey(t.Context(), b.alice)
			if err != nil {
				t.Fatal(err)
			}
			return plain.Reveal()
		}
		var wg sync.WaitGroup
		keys := make([]string, 8)
		for i := range keys {
			wg.Go(func() {
				plain, err := b.TemporaryKey(t.Context(), b.alice)
				if err != nil {
					t.Error(err)
				}
				keys[i] = plain.Reveal()
			})
		}
		wg.Wait()
		first := keys[0]
		for _, k := range keys {
			if k != first {
				t.Error("concurrent first uses made several keys")
			}
		}
		who, err := b.as(t.Context(), first)
		if err != nil || who.Scope != actor.ToolExecute || who.UID != b.alice.UID {
			t.Errorf("%+v, %v", who, err)
		}
		if list, err := b.Keys(t.Context(), b.alice); err != nil || len(list) != 0 {
			t.Errorf("the user sees %v, %v", list, err)
		}
		b.clock.advance(11 * time.Hour)
		if temporary() != first {
			t.Error("a new key after eleven hours")
		}
		b.clock.advance(2 * time.Hour)
		second := temporary()
		if second == first {
			t.Error("the same key after thirteen hours")
		}
		if _, err := b.as(t.Context(), first); err != nil {
			t.Errorf("the first key died early: %v", err)
		}
		who, err = b.as(t.Context(), second)
		if err != nil {
			t.Fatal(err)
		}
		// Revoked by another process: this one must notice before handing it out.
		other := account.New(account.Deps{DB: db, Logger: slog.New(slog.DiscardHandler), Now: b.clock.Now}).Service
		if err := other.RevokeKey(t.Context(), b.alice, who.KeyID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.as(t.Context(), second); !errors.Is(err, account.ErrBadKey) {
			t.Errorf("a revoked key: %v", err)
		}
		if temporary() == second {
			t.Error("a revoked key is handed out")
		}
		b.clock.advance(24*time.Hour + time.Minute)
		if _, err := b.as(t.Context(), first); !errors.Is(err, account.ErrBadKey) {
			t.Errorf("after a day: %v", err)
		}
		b.clock.advance(8 * 24 * time.Hour)
		if n, err := b.PurgeTemporaryKeys(t.Context()); err != nil || n != 3 {
			t.Errorf("purged %d, %v", n, err)
		}
	})
}

func TestSessionTokens(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		b := setup(t, db)
		as := func(token string) (actor.Actor, error) {
			return b.Authenticate(t.Context(), httpapi.Credentials{Token: token})
		}
		token, err := b.IssueToken(t.Context(), b.alice)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := as(token); err != nil || who != b.alice {
			t.Errorf("%+v, %v", who, err)
		}
		later := b.clock.Now().Add(time.Hour).Unix()
		sign := func(method jwt.SigningMethod, key any, c jwt.MapClaims) string {
			s, err := jwt.NewWithClaims(method, c).SignedString(key)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		own := jwt.MapClaims{"uid": b.alice.UID, "exp": later}
		bad := map[string]string{
			"none":           sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, own),
			"HS512":          sign(jwt.SigningMethodHS512, secret, own),
			"another secret": sign(jwt.SigningMethodHS256, []byte("x"), own),
			"no expiry":      sign(jwt.SigningMethodHS256, secret, jwt.MapClaims{"uid": b.alice.UID}),
			"no user":        sign(jwt.SigningMethodHS256, secret, jwt.MapClaims{"exp": later}),
			"unknown user":   sign(jwt.SigningMethodHS256, secret, jwt.MapClaims{"uid": "u-nobody", "exp": later}),
			"cut":            token[:len(token)-2],
			"garbage":        "x.y.z",
		}
		for name, token := range bad {
			if who, err := as(token); !errors.Is(err, account.ErrBadToken) || who != (actor.Actor{}) {
				t.Errorf("%s: %+v, %v", name, who, err)
			}
		}
		b.clock.advance(time.Hour + time.Second)
		if _, err := as(token); !errors.Is(err, account.ErrBadToken) {
			t.Errorf("expired: %v", err)
		}
	})
}

func TestBootstrapMakesOneFirstUser(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := account.New(account.Deps{DB: db, Logger: slog.New(slog.DiscardHandler)}).Service
		var (
			wg  sync.WaitGroup
			mu  sync.Mutex
			got []string
		)
		for range 4 {
			wg.Go(func() {
				_, key, created, err := s.Bootstrap(t.Context(), "admin")
				if err != nil {
					t.Error(err)
				}
				if created {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, key.Reveal())
				}
			})
		}
		wg.Wait()
		if len(got) != 1 {
			t.Fatalf("%d first users were made", len(got))
		}
		if _, err := s.Authenticate(t.Context(), httpapi.Credentials{APIKey: got[0]}); err != nil {
			t.Error(err)
		}
		if _, _, created, err := s.Bootstrap(t.Context(), "another"); created || err != nil {
			t.Errorf("a second start: %v, %v", created, err)
		}
	})
}

func TestUsers(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		b := setup(t, db)
		if _, err := b.CreateUser(t.Context(), "alice", ""); !errors.Is(err, account.ErrNameTaken) {
			t.Errorf("same name: %v", err)
		}
		for _, name := range []string{"", "with space", strings.Repeat("x", 65), "ü"} {
			if _, err := b.CreateUser(t.Context(), name, ""); !errors.Is(err, account.ErrBadUser) {
				t.Errorf("name %q: %v", name, err)
			}
		}
		if u, err := b.UserByName(t.Context(), "bob"); err != nil || u.UID != b.bob.UID {
			t.Errorf("%+v, %v", u, err)
		}
		if _, err := b.UserByName(t.Context(), "nobody"); !errors.Is(err, account.ErrUserMissing) {
			t.Errorf("%v", err)
		}
		if all, err := b.Users(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%v, %v", all, err)
		}
		for _, row := range account.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}

// appKey makes an access token of one app.
func (b bundle) appKey(t *testing.T, a actor.Actor) (key account.Plaintext) {
	t.Helper()
	if err := b.db.InTx(t.Context(), func(tx database.Tx) (err error) {
		key, err = b.AppKey(tx, account.AppKey{UID: a.UID, GrantID: "app-1", Scope: actor.MCP, Until: b.clock.Now().Add(time.Hour)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return key
}

// TestAnotherTenant tries every method of the service as another user.
func TestAnotherTenant(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		b := setup(t, db)
		k, plain := b.key(t, 0)
		tried := map[string]func(){
			"Keys": func() {
				if keys, err := b.Keys(t.Context(), b.bob); err != nil || len(keys) != 0 {
					t.Errorf("%v, %v", keys, err)
				}
			},
			"RenameKey": func() {
				if err := b.RenameKey(t.Context(), b.bob, k.ID, "stolen"); !errors.Is(err, account.ErrKeyMissing) {
					t.Errorf("%v", err)
				}
			},
			"ChooseModel": func() {
				if err := b.ChooseModel(t.Context(), b.bob, k.ID, "small"); !errors.Is(err, account.ErrKeyMissing) {
					t.Errorf("%v", err)
				}
			},
			"Audit": func() {
				if page, err := b.Audit(t.Context(), b.bob, httpapi.PageQuery{Limit: 50}); err != nil || slices.ContainsFunc(page.Items, func(e audit.Event) bool { return e.UID != b.bob.UID }) {
					t.Errorf("%+v, %v", page, err)
				}
			},
			"RevokeKey": func() {
				if err := b.RevokeKey(t.Context(), b.bob, k.ID); !errors.Is(err, account.ErrKeyMissing) {
					t.Errorf("%v", err)
				}
			},
			"TemporaryKey": func() {
				mine, err := b.TemporaryKey(t.Context(), b.bob)
				if err != nil {
					t.Fatal(err)
				}
				if who, err := b.as(t.Context(), mine.Reveal()); err != nil || who.UID != b.bob.UID {
					t.Errorf("%+v, %v", who, err)
				}
			},
			"CallKey": func() {
				hers, err := b.CallKey(t.Context(), b.alice, "call-1", b.clock.Now().Add(time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				his, err := b.CallKey(t.Context(), b.bob, "call-1", b.clock.Now().Add(time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				for plain, uid := range map[account.Plaintext]string{hers: b.alice.UID, his: b.bob.UID} {
					if who, err := b.as(t.Context(), plain.Reveal()); err != nil || who.UID != uid {
						t.Errorf("%+v, %v", who, err)
					}
				}
			},
			"AppKey": func() {
				if who, err := b.as(t.Context(), b.appKey(t, b.alice).Reveal()); err != nil || who.UID != b.alice.UID || who.Scope != actor.MCP || who.Admin {
					t.Errorf("%+v, %v", who, err)
				}
			},
			"EndAppKeys": func() {
				hers := b.appKey(t, b.alice)
				for _, a := range []actor.Actor{b.bob, b.alice} {
					if err := b.db.InTx(t.Context(), func(tx database.Tx) error { return b.EndAppKeys(tx, a.UID, "app-1") }); err != nil {
						t.Fatal(err)
					}
					if _, err := b.as(t.Context(), hers.Reveal()); (err == nil) != (a.UID == b.bob.UID) {
						t.Errorf("%s ended it: %v", a.UID, err)
					}
				}
			},
			"EndCallKey": func() {
				hers, err := b.CallKey(t.Context(), b.alice, "call-2", b.clock.Now().Add(time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				if err := b.EndCallKey(t.Context(), b.bob, "call-2"); err != nil {
					t.Fatal(err)
				}
				if _, err := b.as(t.Context(), hers.Reveal()); err != nil {
					t.Errorf("another user ended the key: %v", err)
				}
			},
			"Still": func() {
				if err := b.Still(t.Context(), actor.Actor{UID: b.bob.UID, KeyID: k.ID}); !errors.Is(err, account.ErrBadKey) {
					t.Errorf("%v", err)
				}
			},
			"User": func() {
				if u, err := b.User(t.Context(), b.bob); err != nil || u.Name != "bob" {
					t.Errorf("%+v, %v", u, err)
				}
			},
			"PasswordOf": func() {
				err := b.db.InTx(t.Context(), func(tx database.Tx) error { return b.SetPassword(tx, b.alice, b.alice.UID, "hers") })
				if err != nil {
					t.Fatal(err)
				}
				if hash, err := b.PasswordOf(t.Context(), b.bob); err != nil || hash != "" {
					t.Errorf("%q, %v", hash, err)
				}
			},
			// The caller has found what they name to be the actor's.
			"SessionToken": nil, "Ticket": nil, "SetPassword": nil, "ByLogin": nil, "TokenLife": nil, "UserIn": nil,
			"Person": nil, "ByEmail": nil, "Join": nil, "FreeName": nil, // of whom a provider names
			"Search": nil, "SetRole": nil, "DisableBy": nil, "Add": nil, // for administrators
			// These take no actor, or make something of the actor's own.
			"Authenticate": nil, "KeyOwner": nil, "CreateKey": nil, "IssueToken": nil,
			"KeysOf": nil, "KeyByID": nil, "Holdings": nil, "Deletable": nil, "DeleteUser": nil, // for operators
			"Disable": nil, "CreateUser": nil, "Users": nil, "UserByName": nil, "Bootstrap": nil, "PurgeTemporaryKeys": nil,
		}
		for m := range reflect.TypeFor[*account.Service]().Methods() {
			try, ok := tried[m.Name]
			if !ok {
				t.Errorf("%s was never tried as another tenant", m.Name)
			}
			if try != nil {
				try()
			}
		}
		if who, err := b.as(t.Context(), plain); err != nil || who.UID != b.alice.UID {
			t.Errorf("the key was touched: %+v, %v", who, err)
		}
	})
}
