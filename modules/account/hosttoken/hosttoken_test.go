package hosttoken_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/account/hosttoken"
	"github.com/portico-run/portico/modules/account/hosttoken/hosttokentest"
)

// clock is a time that a test moves.
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

func settings() hosttoken.Settings {
	return hosttoken.Settings{
		KeyID: "lc-codeapi-2026-05", Issuer: "librechat", Audience: "codeapi", Skew: 30 * time.Second, MaxLife: 5 * time.Minute,
		ReloadEvery: 30 * time.Second, SecretID: "shared", Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	}
}

func verifier(t *testing.T, change func(s *hosttoken.Settings)) *hosttoken.Verifier {
	t.Helper()
	s := settings()
	change(&s)
	v, err := hosttoken.New(s)
	require.NoError(t, err)
	return v
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// keySet is the public key of hosts as a JSON Web Key Set.
func keySet(t *testing.T, hosts ...hosttokentest.Host) string {
	t.Helper()
	var list []map[string]string
	for _, h := range hosts {
		switch private := h.Private.(type) {
		case ed25519.PrivateKey:
			list = append(list, map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": h.KeyID, "x": encode(private[32:]), "use": "sig", "alg": "EdDSA"})
		case *rsa.PrivateKey:
			list = append(list, map[string]string{"kty": "RSA", "kid": h.KeyID, "n": encode(private.N.Bytes()), "e": encode(big.NewInt(int64(private.E)).Bytes())})
		}
	}
	list = append(list, map[string]string{"kty": "EC", "crv": "P-256", "use": "enc", "kid": "for encryption"})
	text, err := json.Marshal(map[string]any{"keys": list})
	require.NoError(t, err)
	return string(text)
}

func TestTokensOfEachAlgorithmAndSource(t *testing.T) {
	t.Parallel()
	ed, rs, shared := hosttokentest.New(t, "lc-codeapi-2026-05"), hosttokentest.NewRSA(t, "lc-codeapi-2026-05"), hosttokentest.NewHS256("shared", strings.Repeat("s", 32))
	folder := t.TempDir()
	inFolder := hosttokentest.New(t, "2026.07")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "2026.07.pem"), []byte(inFolder.Public(t)), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".hidden"), []byte("no key"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "folder"), 0o700))
	rsaPKCS1 := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&rs.Private.(*rsa.PrivateKey).PublicKey)}))
	one := func(text string) string {
		var set struct{ Keys []json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(text), &set))
		return string(set.Keys[0])
	}
	for name, c := range map[string]struct {
		host   hosttokentest.Host
		change func(s *hosttoken.Settings)
	}{
		"EdDSA":               {ed, func(s *hosttoken.Settings) { s.PublicKey = ed.Public(t) }},
		"RS256":               {rs, func(s *hosttoken.Settings) { s.PublicKey = rs.Public(t) }},
		"PEM on one line":     {ed, func(s *hosttoken.Settings) { s.PublicKey = strings.ReplaceAll(ed.Public(t), "\n", `\n`) }},
		"RSA PUBLIC KEY":      {rs, func(s *hosttoken.Settings) { s.PublicKey = rsaPKCS1 }},
		"JSON Web Key":        {ed, func(s *hosttoken.Settings) { s.PublicKey = one(keySet(t, ed)) }},
		"JSON Web Key of RSA": {rs, func(s *hosttoken.Settings) { s.PublicKey = one(keySet(t, rs)) }},
		"set":                 {ed, func(s *hosttoken.Settings) { s.KeySet = keySet(t, ed) }},
		"second of a set":     {inFolder, func(s *hosttoken.Settings) { s.KeySet = keySet(t, rs, inFolder) }},
		"folder":              {inFolder, func(s *hosttoken.Settings) { s.Folder = folder }},
		"HS256":               {shared, func(s *hosttoken.Settings) { s.Secret = strings.Repeat("s", 32) }},
		"HS256 beside a key":  {shared, func(s *hosttoken.Settings) { s.Secret, s.PublicKey = strings.Repeat("s", 32), ed.Public(t) }},
		"a key beside the others": {ed, func(s *hosttoken.Settings) {
			s.Secret, s.PublicKey, s.Folder, s.KeySet = strings.Repeat("s", 32), ed.Public(t), folder, keySet(t, hosttokentest.New(t, "other"))
		}},
	} {
		v := verifier(t, c.change)
		token := c.host.For(t, "66f0", map[string]any{"tenant_id": "acme", "plan_id": "pro", "code_worker_id": "w1"})
		require.True(t, hosttoken.Claimed(token), name)
		for range 2 { // hosts send one token with many requests
			got, err := v.Verify(token)
			require.NoError(t, err, name)
			require.WithinDuration(t, time.Now(), got.IssuedAt, time.Minute)
			require.Equal(t, time.UTC, got.IssuedAt.Location(), "databases compare times as they are written")
			got.IssuedAt = time.Time{}
			require.Equal(t, hosttoken.Claims{Issuer: "librechat", Tenant: "acme", Subject: "66f0", Plan: "pro", Worker: "w1"}, got, name)
		}
		got, err := v.Verify(c.host.For(t, "66f0", map[string]any{"tenant_id": nil, "aud": []string{"other", "codeapi"}}))
		require.NoError(t, err, name)
		require.Equal(t, "legacy", got.Tenant)
	}
}

// tampered changes the payload and leaves the signature.
func tampered(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	parts[1] = encode(bytes.Replace(payload, []byte(`"sub":"66f0"`), []byte(`"sub":"66f1"`), 1))
	return strings.Join(parts, ".")
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	ed, rs := hosttokentest.New(t, "ed"), hosttokentest.NewRSA(t, "rs")
	v := verifier(t, func(s *hosttoken.Settings) { s.KeySet = keySet(t, ed, rs) })
	strict := verifier(t, func(s *hosttoken.Settings) { s.KeySet, s.TenantRequired = keySet(t, ed), true })
	now := time.Now().Unix()
	with := func(name string, value any) string { return ed.For(t, "66f0", map[string]any{name: value}) }
	header := func(h hosttokentest.Host, name string, value any) string {
		token := jwt.NewWithClaims(h.Method, hosttokentest.Claims("66f0"))
		token.Header["kid"] = h.KeyID
		token.Header[name] = value
		text, err := token.SignedString(h.Private)
		require.NoError(t, err)
		return text
	}
	none := jwt.NewWithClaims(jwt.SigningMethodNone, hosttokentest.Claims("66f0"))
	none.Header["kid"] = "ed"
	unsigned, err := none.SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)
	for name, token := range map[string]string{
		"no signature":                   unsigned,
		"signature cut off":              ed.For(t, "66f0")[:strings.LastIndex(ed.For(t, "66f0"), ".")+1],
		"changed":                        tampered(t, ed.For(t, "66f0")),
		"another key under the kid":      hosttokentest.New(t, "ed").For(t, "66f0"),
		"unknown kid":                    hosttokentest.New(t, "other").For(t, "66f0"),
		"no kid":                         hosttokentest.Host{Method: ed.Method, Private: ed.Private}.For(t, "66f0"),
		"kid of the other key":           hosttokentest.Host{KeyID: "rs", Method: ed.Method, Private: ed.Private}.For(t, "66f0"),
		"public key as a secret":         hosttokentest.NewHS256("rs", rs.Public(t)).For(t, "66f0"),
		"HS256 without a secret":         hosttokentest.NewHS256("hs256-dev", "").For(t, "66f0"),
		"RSA with another algorithm":     hosttokentest.Host{KeyID: "rs", Method: jwt.SigningMethodRS512, Private: rs.Private}.For(t, "66f0"),
		"expired":                        with("exp", now-31),
		"without an end":                 with("exp", nil),
		"not yet":                        with("nbf", now+40),
		"issued in the future":           with("iat", now+40),
		"without a beginning":            with("iat", nil),
		"too long a life":                with("exp", now+302),
		"ends before it begins":          ed.For(t, "66f0", map[string]any{"iat": now + 20, "nbf": now, "exp": now + 10}),
		"another issuer":                 with("iss", "somebody"),
		"no issuer":                      with("iss", nil),
		"another audience":               with("aud", "other"),
		"no audience":                    with("aud", nil),
		"nobody":                         with("sub", nil),
		"blank":                          with("sub", " "),
		"subject of control characters":  with("sub", "a\x00b"),
		"subject too long":               with("sub", strings.Repeat("x", 257)),
		"subject is a number":            with("sub", 5),
		"empty tenant":                   with("tenant_id", ""),
		"tenant of line breaks":          with("tenant_id", "a\nb"),
		"plan too long":                  with("plan_id", strings.Repeat("x", 257)),
		"too long":                       with("jti", strings.Repeat("x", 9000)),
		"an extension that is not known": header(ed, "crit", []string{"exp"}),
		"a token of another type":        header(ed, "typ", "at+jwt"),
		"empty":                          "",
		"text":                           "a.b.c",
		"two parts":                      "a.b",
		"padding":                        ed.For(t, "66f0") + "=",
	} {
		_, err := v.Verify(token)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "66f0", name)
		require.NotErrorIs(t, err, hosttoken.ErrNoKeys)
	}
	_, err = v.Verify(hosttokentest.New(t, "lc-"+strings.Repeat("x", 100)).For(t, "66f0"))
	require.EqualError(t, err, `its kid "lc-`+strings.Repeat("x", 61)+`" is not that of any key`)
	_, err = strict.Verify(with("tenant_id", nil))
	require.Error(t, err, "a tenant is required")
	_, err = strict.Verify(with("tenant_id", "acme"))
	require.NoError(t, err)

	// Clocks may differ by the skew.
	for _, claims := range []map[string]any{
		{"iat": now - 300, "nbf": now - 300, "exp": now - 25},
		{"iat": now + 25, "nbf": now + 25, "exp": now + 325},
	} {
		_, err := v.Verify(ed.For(t, "66f0", claims))
		require.NoError(t, err, "%v", claims)
	}
}

// Tokens of sessions are never taken for a host's, and the other way round.
func TestWhoseTokenItIs(t *testing.T) {
	t.Parallel()
	session, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"uid": "u-1"}).SignedString([]byte("x"))
	require.NoError(t, err)
	require.False(t, hosttoken.Claimed(session))
	for _, text := range []string{"", "x", "rf_x", strings.Repeat("x", 100_000)} {
		require.False(t, hosttoken.Claimed(text))
	}
	require.True(t, hosttoken.Claimed("e30.e30."), "what names no algorithm is no session token")
	require.True(t, hosttoken.Claimed(hosttokentest.NewHS256("shared", "x").For(t, "a")))
	require.True(t, hosttoken.Claimed(hosttokentest.New(t, "").For(t, "a")))
}

func TestKeysThatAreNoneStopTheStart(t *testing.T) {
	t.Parallel()
	ed := hosttokentest.New(t, "ed")
	private, err := x509.MarshalPKCS8PrivateKey(ed.Private)
	require.NoError(t, err)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	bad := func(content string) string {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "a.pem"), []byte(content), 0o600))
		return folder
	}
	twice := bad(ed.Public(t))
	require.NoError(t, os.WriteFile(filepath.Join(twice, "a.pub"), []byte(ed.Public(t)), 0o600))
	curvePEM := hosttokentest.Host{Private: curve}.Public(t)
	for want, change := range map[string]func(s *hosttoken.Settings){
		"there is no key": func(*hosttoken.Settings) {},
		"a private key stays with the host": func(s *hosttoken.Settings) {
			s.PublicKey = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
		},
		"one PEM block or one JSON Web Key": func(s *hosttoken.Settings) { s.PublicKey = ed.Public(t) + ed.Public(t) },
		"holds no public key": func(s *hosttoken.Settings) {
			s.PublicKey = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
		},
		"an RSA key has 2048":     func(s *hosttoken.Settings) { s.PublicKey = hosttokentest.Host{Private: small}.Public(t) },
		"a key is Ed25519 or RSA": func(s *hosttoken.Settings) { s.PublicKey = curvePEM },
		"the JSON Web Key is private": func(s *hosttoken.Settings) {
			s.KeySet = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AA","d":"AA"}]}`
		},
		"no Ed25519 key":                      func(s *hosttoken.Settings) { s.KeySet = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AA"}]}` },
		"the algorithm \"RS256\"":             func(s *hosttoken.Settings) { s.KeySet = strings.Replace(keySet(t, ed), "EdDSA", "RS256", 1) },
		"a key's id has 1 to":                 func(s *hosttoken.Settings) { s.KeySet = strings.Replace(keySet(t, ed), `"kid":"ed"`, `"kid":""`, 1) },
		"with the list keys":                  func(s *hosttoken.Settings) { s.KeySet = `{"keys":null}` },
		`two keys have the id "ed"`:           func(s *hosttoken.Settings) { s.KeySet, s.PublicKey, s.KeyID = keySet(t, ed), ed.Public(t), "ed" },
		"less than 32 bytes":                  func(s *hosttoken.Settings) { s.Secret = "short" },
		"the folder cannot be read":           func(s *hosttoken.Settings) { s.Folder = filepath.Join(t.TempDir(), "missing") },
		"the file a.pem: a public key is one": func(s *hosttoken.Settings) { s.Folder = bad("no key") },
		"it is too large for a key":           func(s *hosttoken.Settings) { s.Folder = bad(strings.Repeat(" ", 70_000)) },
		`two keys have the id "a"`:            func(s *hosttoken.Settings) { s.Folder = twice },
		"of hosts with":                       func(s *hosttoken.Settings) { s.Folder = t.TempDir() },
	} {
		s := settings()
		change(&s)
		_, err := hosttoken.New(s)
		require.ErrorContains(t, err, want)
	}
}

// Keys of a folder come and go without a restart. One that cannot be read
// leaves them in force for a while, loudly, and then nothing is taken.
func TestKeysOfAFolderComeAndGo(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first, second := hosttokentest.New(t, "first"), hosttokentest.New(t, "second")
	put := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	put("first.pem", first.Public(t))
	c := &clock{now: time.Now()}
	var log bytes.Buffer
	v := verifier(t, func(s *hosttoken.Settings) {
		s.Folder, s.Now, s.MaxLife, s.Logger = folder, c.Now, time.Hour, slog.New(slog.NewTextHandler(&log, nil))
	})
	ok := func(h hosttokentest.Host) error {
		now := c.Now().Unix()
		_, err := v.Verify(h.For(t, "a", map[string]any{"iat": now, "nbf": now, "exp": now + 60}))
		return err
	}
	require.NoError(t, ok(first))
	put("second.pem", second.Public(t))
	require.Error(t, ok(second), "the folder is not read for every token")
	c.advance(30 * time.Second)
	require.NoError(t, ok(second))
	require.NoError(t, os.Remove(filepath.Join(folder, "first.pem")))
	c.advance(30 * time.Second)
	require.Error(t, ok(first))
	require.NoError(t, ok(second))
	require.Empty(t, log.String())

	put("third.pem", "half a k")
	c.advance(30 * time.Second)
	require.NoError(t, ok(second), "the keys that were read before")
	require.Contains(t, log.String(), "the file third.pem: a public key is one PEM block")
	c.advance(5 * time.Minute)
	require.ErrorIs(t, ok(second), hosttoken.ErrNoKeys)
	require.ErrorIs(t, ok(first), hosttoken.ErrNoKeys)
	require.NoError(t, os.Remove(filepath.Join(folder, "third.pem")))
	c.advance(30 * time.Second)
	require.NoError(t, ok(second))
	require.Contains(t, log.String(), "can be read again")
	require.NoError(t, os.Remove(filepath.Join(folder, "second.pem")))
	c.advance(30 * time.Second)
	require.Error(t, ok(second), "the last key is gone, too")
}
