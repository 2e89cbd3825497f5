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

// Box seals and opens secrets with one key. It is safe for concurrent use.
type Box struct{ aead cipher.AEAD }

// New makes a box from a key of 64 hexadecimal digits.
func New(key string) (*Box, error) {
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
	return &Box{aead: aead}, nil
}

// Seal encrypts a secret. Sealing the same secret twice gives two texts.
func (b *Box) Seal(secret []byte) string {
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails: crypto/rand ends the program instead
	sealed := b.aead.Seal(nil, nonce[:], secret, nil)
	text, tag := sealed[:len(sealed)-tagSize], sealed[len(sealed)-tagSize:]
	return hex.EncodeToString(slices.Concat(nonce[:], tag, text))
}

// Open decrypts what Seal made. A text that was changed, or sealed with
// another key, is an error.
func (b *Box) Open(sealed string) ([]byte, error) {
	raw, err := hex.DecodeString(sealed)
	if err != nil || len(raw) < nonceSize+tagSize {
		return nil, errors.New("not a sealed secret")
	}
	nonce, tag, text := raw[:nonceSize], raw[nonceSize:nonceSize+tagSize], raw[nonceSize+tagSize:]
	secret, err := b.aead.Open(nil, nonce, slices.Concat(text, tag), nil)
	if err != nil {
		return nil, errors.New("the secret was sealed with another key or was changed; is the encryption key the one it was stored with?")
	}
	return secret, nil
}
