package hosttoken

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Bounds of keys.
const (
	minRSA    = 2048 // bits
	maxRSA    = 16384
	minSecret = 32 // bytes, as RFC 7518 asks of HS256
	maxKeys   = 100
	maxKeyID  = 256
)

// key is what one kid stands for. The algorithm belongs to the key: a token
// does not choose it.
type key struct {
	alg   string
	value any // what the library wants for alg
}

// keys are those in force, by kid.
type keys map[string]key

// add keeps a key under a name that no other has.
func (k keys) add(kid string, one key) error {
	switch _, taken := k[kid]; {
	case kid == "" || len(kid) > maxKeyID:
		return fmt.Errorf("a key's id has 1 to %d characters", maxKeyID)
	case taken:
		return fmt.Errorf("two keys have the id %q", kid)
	case len(k) == maxKeys:
		return fmt.Errorf("there are more than %d keys", maxKeys)
	}
	k[kid] = one
	return nil
}

// public makes a key of the types that hosts sign with.
func public(value any) (key, error) {
	switch v := value.(type) {
	case ed25519.PublicKey:
		return key{jwt.SigningMethodEdDSA.Alg(), v}, nil
	case *rsa.PublicKey:
		if bits := v.N.BitLen(); bits < minRSA || bits > maxRSA || v.E < 3 || v.E%2 == 0 {
			return key{}, fmt.Errorf("an RSA key has %d to %d bits", minRSA, maxRSA)
		}
		return key{jwt.SigningMethodRS256.Alg(), v}, nil
	}
	return key{}, errors.New("a key is Ed25519 or RSA")
}

// parseKey reads a public key as PEM or as a JSON Web Key. PEM may have "\n"
// for its line ends, as variables of one line have it.
func parseKey(text string) (key, error) {
	text = strings.TrimSpace(strings.ReplaceAll(text, `\n`, "\n"))
	if strings.HasPrefix(text, "{") {
		var j jwk
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			return key{}, errors.New("the JSON Web Key is not valid JSON")
		}
		return j.key()
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return key{}, errors.New("a public key is one PEM block or one JSON Web Key; make it with: openssl pkey -in private.pem -pubout")
	}
	var value any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		value, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		value, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return key{}, errors.New("the PEM block is not a PUBLIC KEY; a private key stays with the host. Make the public one with: openssl pkey -in private.pem -pubout")
	}
	if err != nil {
		return key{}, errors.New("the PEM block holds no public key that can be read")
	}
	return public(value)
}

// jwk is a JSON Web Key (RFC 7517, RFC 8037), as far as it is used.
type jwk struct {
	Type    string `json:"kty"`
	KeyID   string `json:"kid"`
	Use     string `json:"use"`
	Alg     string `json:"alg"`
	Curve   string `json:"crv"`
	X       string `json:"x"`
	N       string `json:"n"`
	E       string `json:"e"`
	Private string `json:"d"`
}

func (j jwk) key() (key, error) {
	if j.Private != "" {
		return key{}, errors.New("the JSON Web Key is private; leave its member d with the host")
	}
	var value any
	switch {
	case j.Type == "OKP" && j.Curve == "Ed25519":
		x, err := base64.RawURLEncoding.DecodeString(j.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return key{}, errors.New("the member x of the JSON Web Key is no Ed25519 key")
		}
		value = ed25519.PublicKey(x)
	case j.Type == "RSA":
		n, err := base64.RawURLEncoding.DecodeString(j.N)
		e, err2 := base64.RawURLEncoding.DecodeString(j.E)
		if err != nil || err2 != nil || len(e) == 0 || len(e) > 4 {
			return key{}, errors.New("the members n and e of the JSON Web Key are no RSA key")
		}
		value = &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	}
	k, err := public(value)
	if err == nil && j.Alg != "" && j.Alg != k.alg {
		err = fmt.Errorf("the JSON Web Key is for the algorithm %q, and not for %s", j.Alg, k.alg)
	}
	return k, err
}

// addSet adds the keys of a JSON Web Key Set. Keys for encryption are left out;
// one that cannot be used for signatures either is an error.
func (k keys) addSet(text string) error {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal([]byte(text), &set); err != nil || set.Keys == nil {
		return errors.New("it is not a JSON object with the list keys")
	}
	for i, j := range set.Keys {
		if j.Use == "enc" {
			continue
		}
		one, err := j.key()
		if err == nil {
			err = k.add(j.KeyID, one)
		}
		if err != nil {
			return fmt.Errorf("key %d of the list: %w", i+1, err)
		}
	}
	return nil
}
