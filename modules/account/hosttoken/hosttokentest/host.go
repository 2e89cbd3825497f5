// Package hosttokentest is a stand-in for a LibreChat server that signs
// tokens.
package hosttokentest

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// Host signs with one key.
type Host struct {
	KeyID string
	// Method is what it signs with, and Private the key.
	Method  jwt.SigningMethod
	Private any
}

// New makes a host that signs with EdDSA.
func New(t testing.TB, kid string) Host {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Host{kid, jwt.SigningMethodEdDSA, private}
}

// NewRSA makes a host that signs with RS256.
func NewRSA(t testing.TB, kid string) Host {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return Host{kid, jwt.SigningMethodRS256, private}
}

// NewHS256 makes a host that shares a secret.
func NewHS256(kid, secret string) Host { return Host{kid, jwt.SigningMethodHS256, []byte(secret)} }

// Public is the host's public key as PEM.
func (h Host) Public(t testing.TB) string {
	t.Helper()
	private, ok := h.Private.(crypto.Signer)
	if !ok {
		t.Fatal("a shared secret has no public key")
	}
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// Claims are those that LibreChat sends for a person, changed by others; a nil
// takes a claim away.
func Claims(subject string, changes ...map[string]any) jwt.MapClaims {
	now := time.Now().Unix()
	c := jwt.MapClaims{
		"iss": "librechat", "aud": "codeapi", "sub": subject, "iat": now, "nbf": now, "exp": now + 300, "jti": uuid.NewString(),
		"tenant_id": "legacy", "role": "USER", "principal_source": "librechat_jwt", "auth_context_hash": "0",
	}
	for _, change := range changes {
		maps.Copy(c, change)
	}
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// Token signs claims.
func (h Host) Token(t testing.TB, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(h.Method, claims)
	if h.KeyID != "" {
		token.Header["kid"] = h.KeyID
	}
	text, err := token.SignedString(h.Private)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// For signs what LibreChat says for a person.
func (h Host) For(t testing.TB, subject string, changes ...map[string]any) string {
	t.Helper()
	return h.Token(t, Claims(subject, changes...))
}
