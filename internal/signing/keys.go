// Package signing has the keys of tokens that are good for a time. A key is changed
// while tokens of the one before are under way.
package signing

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// Keys sign with the first, and take what any of them signed.
type Keys [][]byte

var errNone = errors.New("there is no key to sign with")

// For are the keys of one purpose, made of these: what they sign is never taken for
// something of another purpose.
func (k Keys) For(purpose string) (Keys, error) {
	made := make(Keys, len(k))
	for i, secret := range k {
		var err error
		if made[i], err = hkdf.Key(sha256.New, secret, nil, purpose, sha256.Size); err != nil {
			return nil, fmt.Errorf("key of %s: %w", purpose, err)
		}
	}
	return made, nil
}

// Pairs are the key pairs of one purpose, made of these: whoever has only a public half
// takes what they sign, and signs nothing.
func (k Keys) Pairs(purpose string) ([]ed25519.PrivateKey, error) {
	seeds, err := k.For(purpose)
	if err != nil {
		return nil, err
	}
	pairs := make([]ed25519.PrivateKey, len(seeds))
	for i, seed := range seeds {
		pairs[i] = ed25519.NewKeyFromSeed(seed)
	}
	return pairs, nil
}

// Token signs claims.
func (k Keys) Token(claims jwt.Claims) (string, error) {
	if len(k) == 0 {
		return "", errNone
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(k[0])
}

// Parse reads the claims of a token that one of the keys signed. It takes HS256 and
// nothing else, whatever a token says of itself, and none that does not end.
func (k Keys) Parse(token string, claims jwt.Claims, options ...jwt.ParserOption) error {
	if len(k) == 0 {
		return errNone
	}
	set := jwt.VerificationKeySet{Keys: make([]jwt.VerificationKey, len(k))}
	for i, key := range k {
		set.Keys[i] = key
	}
	options = append(options, jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired())
	_, err := jwt.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return set, nil }, options...)
	return err
}

// Sum is the signature of a text.
func (k Keys) Sum(text string) []byte {
	if len(k) == 0 {
		return nil
	}
	return sum(k[0], text)
}

// Signed reports whether a signature of a text is that of one of the keys.
func (k Keys) Signed(text string, signature []byte) bool {
	for _, key := range k {
		if hmac.Equal(signature, sum(key, text)) {
			return true
		}
	}
	return false
}

func sum(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
