// Package hosttoken verifies the signed tokens by which a LibreChat server
// says for which of its people it asks.
//
// Such a token is a JSON Web Token of a few minutes, signed with EdDSA, RS256
// or, where a secret is shared, HS256. A host sends one with many requests, so
// that it is no one-time ticket.
package hosttoken

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// defaultTenant is the tenant of tokens that name none.
const defaultTenant = "legacy"

// Settings say whose tokens are good. Keys come from any of the sources, and
// no two may have one id.
type Settings struct {
	// PublicKey is a key as PEM or as a JSON Web Key, and KeyID its kid.
	PublicKey, KeyID string
	// KeySet is a JSON Web Key Set.
	KeySet string
	// Folder holds a key in each file; the file's name without its extension is
	// the kid. It is read again ReloadEvery after the last time, so that keys
	// come and go without a restart.
	Folder      string
	ReloadEvery time.Duration
	// Secret is shared with a host that signs with HS256, and SecretID its kid.
	// Empty takes no such tokens.
	Secret, SecretID string
	// Issuer and Audience are what the claims iss and aud have to say.
	Issuer, Audience string
	// Skew is by how much the clocks may differ; MaxLife the longest time from
	// iat to exp.
	Skew, MaxLife time.Duration
	// TenantRequired refuses tokens without a tenant; they are defaultTenant's
	// otherwise.
	TenantRequired bool

	Logger *slog.Logger
	Now    func() time.Time
}

// Claims are what a good token says.
type Claims struct {
	Issuer, Tenant, Subject string
	// Plan is the host's name of the person's plan, or empty.
	Plan string
	// Worker is the machine that the host chose for the person's code, or empty.
	Worker   string
	IssuedAt time.Time
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	Settings

	fixed  keys // all but those of the folder
	parser *jwt.Parser

	mu       sync.Mutex
	current  keys
	readAt   time.Time // of the last attempt to read the folder
	goodAt   time.Time // of the last that succeeded
	reported bool      // that current is from an earlier attempt
}

// New reads the keys. It fails when one of them, or the folder, cannot be read,
// and when there is none at all.
func New(s Settings) (*Verifier, error) {
	v := &Verifier{Settings: s, fixed: keys{}}
	methods := []string{jwt.SigningMethodEdDSA.Alg(), jwt.SigningMethodRS256.Alg()}
	if s.PublicKey != "" {
		one, err := parseKey(s.PublicKey)
		if err == nil {
			err = v.fixed.add(s.KeyID, one)
		}
		if err != nil {
			return nil, fmt.Errorf("the public key of hosts: %w", err)
		}
	}
	if s.KeySet != "" {
		if err := v.fixed.addSet(s.KeySet); err != nil {
			return nil, fmt.Errorf("the key set of hosts: %w", err)
		}
	}
	if s.Secret != "" {
		if len(s.Secret) < minSecret {
			return nil, fmt.Errorf("the secret shared with hosts has less than %d bytes; make one with: openssl rand -hex 32", minSecret)
		}
		if err := v.fixed.add(s.SecretID, key{jwt.SigningMethodHS256.Alg(), []byte(s.Secret)}); err != nil {
			return nil, fmt.Errorf("the secret shared with hosts: %w", err)
		}
		methods = append(methods, jwt.SigningMethodHS256.Alg())
	}
	if err := v.read(s.Now()); err != nil {
		return nil, fmt.Errorf("the folder with the keys of hosts: %w", err)
	}
	if len(v.current) == 0 {
		return nil, errors.New("there is no key to verify the tokens of hosts with")
	}
	v.parser = jwt.NewParser(
		jwt.WithValidMethods(methods), jwt.WithIssuer(s.Issuer), jwt.WithAudience(s.Audience), jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(), jwt.WithLeeway(s.Skew), jwt.WithTimeFunc(s.Now), jwt.WithStrictDecoding(),
	)
	return v, nil
}

// read makes the keys of the folder, and the others, the current ones.
func (v *Verifier) read(now time.Time) error {
	v.readAt = now
	all := maps.Clone(v.fixed)
	if v.Folder != "" {
		if err := all.addFolder(v.Folder); err != nil {
			return err
		}
	}
	v.current, v.goodAt = all, now
	return nil
}

// keepKeys is how long keys stay in force when their folder can no longer be
// read: long enough to replace a file that is broken, and for the tokens that
// are out.
const keepKeys = 5 * time.Minute

// ErrNoKeys is returned by Verify when the folder of keys cannot be read, and
// could not for a while.
var ErrNoKeys = errors.New("the keys of hosts cannot be read")

// key finds the key of a kid. The folder is read by whoever comes when it is
// time; others wait for that.
func (v *Verifier) key(kid string) (key, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.Now()
	if v.Folder != "" && now.Sub(v.readAt) >= v.ReloadEvery {
		err := v.read(now)
		switch {
		case err != nil:
			v.Logger.Error("the folder with the keys of hosts cannot be read; the keys read before stay in force for a while",
				"error", err, "until", v.goodAt.Add(keepKeys))
		case v.reported:
			v.Logger.Info("the folder with the keys of hosts can be read again")
		}
		v.reported = err != nil
	}
	if v.reported && now.Sub(v.goodAt) > keepKeys {
		return key{}, ErrNoKeys
	}
	one, known := v.current[kid]
	if !known {
		return key{}, unknownKey(kid)
	}
	return one, nil
}
