package wire

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// TokenLife is how long a token counts.
const TokenLife = 30 * time.Second

// ErrOtherNode says that a token is for another node, or for the one that was here
// before.
var ErrOtherNode = errors.New("the token is for another node")

// Sign signs that a job of an owner may be given to a node, with each of the keys: a
// node that does not know the newest yet takes another one.
func Sign(keys []ed25519.PrivateKey, nonce, owner string, now time.Time) (string, error) {
	var tokens []string
	for _, key := range keys {
		token, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.RegisteredClaims{
			Audience: jwt.ClaimStrings{nonce}, Subject: owner, ID: rand.Text(), ExpiresAt: jwt.NewNumericDate(now.Add(TokenLife)),
		}).SignedString(key)
		if err != nil {
			return "", err
		}
		tokens = append(tokens, token)
	}
	return strings.Join(tokens, " "), nil
}

// maxTokens is how many tokens are looked at.
const maxTokens = 8

// Token is what a token says.
type Token struct {
	Owner, ID string
	Ends      time.Time
}

// Verify returns what the first of the tokens says that one of the keys signed for a node.
func Verify(keys []ed25519.PublicKey, nonce, tokens string, now time.Time) (Token, error) {
	set := jwt.VerificationKeySet{}
	for _, key := range keys {
		set.Keys = append(set.Keys, key)
	}
	err := errors.New("there is no token")
	for n, token := range strings.Fields(tokens) {
		if n == maxTokens {
			break
		}
		var c jwt.RegisteredClaims
		_, err = jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return set, nil },
			jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithExpirationRequired(), jwt.WithAudience(nonce), jwt.WithTimeFunc(func() time.Time { return now }))
		switch {
		case errors.Is(err, jwt.ErrTokenInvalidAudience):
			return Token{}, ErrOtherNode
		case err != nil:
			continue
		case c.ID == "" || c.Subject == "" || c.ExpiresAt.Sub(now) > 2*TokenLife:
			err = errors.New("the token does not say what it must")
			continue
		}
		return Token{Owner: c.Subject, ID: c.ID, Ends: c.ExpiresAt.Time}, nil
	}
	return Token{}, err
}

// PublicKey is how a public key is written.
func PublicKey(key ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(key) }

// ParseKey reads what PublicKey wrote.
func ParseKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is no public key: portico node key prints it", text)
	}
	return key, nil
}

// Claimed is the owner that the first of the tokens names, whoever signed it. It is for
// nodes that only one machine can reach.
func Claimed(tokens string) string {
	first, _, _ := strings.Cut(tokens, " ")
	var c jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(first, &c); err != nil {
		return ""
	}
	return c.Subject
}
