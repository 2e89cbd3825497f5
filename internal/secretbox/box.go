// Package secretbox keeps secrets encrypted at rest with AES-256-GCM.
package secretbox

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Sizes in bytes. A sealed secret is the hex form of nonce, tag and
// ciphertext, in this order: docs/wire/refly.md#sealed-secrets.
const (
	keySize   = 32
	nonceSize = 16
	tagSize   = 16
)

// Box seals secrets with one key, and opens what that or an old one sealed. It is
// safe for concurrent use.
type Box struct{ keys []cipher.AEAD }

// New makes a box that seals with a key of 64 hexadecimal digits, and also opens
// with old ones.
func New(key string, old ...string) (*Box, error) {
	b := &Box{}
	for _, k := range append([]string{key}, old...) {
		aead, err := cipherOf(k)
		if err != nil {
			return nil, err
		}
		b.keys = append(b.keys, aead)
	}
	return b, nil
}

func cipherOf(key string) (cipher.AEAD, error) {
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) != keySize {
		return nil, errors.New("the encryption key must be 64 hexadecimal digits; make one with: openssl rand -hex 32")
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, fmt.Errorf("encryption key: %w", err)
	}
	aead, err := cipher.NewGCMWithNonceSize(block, nonceSize)
	if err != nil {
		return nil, fmt.Errorf("encryption key: %w", err)
	}
	return aead, nil
}

// Seal encrypts a secret. Sealing the same secret twice gives two texts.
func (b *Box) Seal(secret []byte) string {
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails: crypto/rand ends the program instead
	sealed := b.keys[0].Seal(nil, nonce[:], secret, nil)
	text, tag := sealed[:len(sealed)-tagSize], sealed[len(sealed)-tagSize:]
	return hex.EncodeToString(slices.Concat(nonce[:], tag, text))
}

// Open decrypts what Seal made, now or when another key of the box was the first. A
// text that was changed, or sealed with a key that is none of them, is an error.
func (b *Box) Open(sealed string) ([]byte, error) {
	secret, _, err := b.Which(sealed)
	return secret, err
}

// Which is Open, and says which key of the box opened the text: 0 is the one that
// seals. A sealed text does not name its key, so that this is found out by trying.
func (b *Box) Which(sealed string) (secret []byte, key int, err error) {
	raw, err := hex.DecodeString(sealed)
	if err != nil || len(raw) < nonceSize+tagSize {
		return nil, 0, errors.New("not a sealed secret")
	}
	nonce, tag, text := raw[:nonceSize], raw[nonceSize:nonceSize+tagSize], raw[nonceSize+tagSize:]
	joined := slices.Concat(text, tag)
	for i, aead := range b.keys {
		if secret, err = aead.Open(nil, nonce, joined, nil); err == nil {
			return secret, i, nil
		}
	}
	return nil, 0, errors.New("the secret was sealed with another key or was changed; is the encryption key the one it was stored with?")
}
