package secretbox_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/secretbox"
)

func box(t *testing.T, key string) *secretbox.Box {
	t.Helper()
	b, err := secretbox.New(key)
	require.NoError(t, err)
	return b
}

func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	b := box(t, strings.Repeat("0a", 32))
	for _, secret := range []string{"", "x", "a longer secret with ünïcode"} {
		sealed := b.Seal([]byte(secret))
		require.Len(t, sealed, 2*(16+16+len(secret)))
		opened, err := b.Open(sealed)
		require.NoError(t, err)
		require.Equal(t, secret, string(opened))
		require.NotEqual(t, sealed, b.Seal([]byte(secret)), "a nonce was used twice")
	}
}

// The text was made by another implementation: node's aes-256-gcm with a
// 16-byte nonce, written as nonce, tag, ciphertext.
func TestOpensTheWireContractsLayout(t *testing.T) {
	t.Parallel()
	b := box(t, strings.Repeat("07", 32))
	opened, err := b.Open("09090909090909090909090909090909fbe7f30c78c1267c29431290714e932baaefe15900")
	require.NoError(t, err)
	require.Equal(t, "hello", string(opened))
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	b := box(t, strings.Repeat("0a", 32))
	sealed := b.Seal([]byte("secret"))
	other := box(t, strings.Repeat("0b", 32))
	for name, text := range map[string]string{
		"empty": "", "not hex": "zz", "short": "00ff", "cut": sealed[:len(sealed)-2],
		"changed": sealed[:40] + flip(sealed[40:41]) + sealed[41:], "plain": "sk-live-1234",
	} {
		_, err := b.Open(text)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "sk-live")
	}
	_, err := other.Open(sealed)
	require.ErrorContains(t, err, "another key")
}

func flip(digit string) string {
	if digit == "0" {
		return "1"
	}
	return "0"
}

func TestNewRefusesBadKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "00", strings.Repeat("0", 63), strings.Repeat("x", 64), strings.Repeat("0a", 33)} {
		_, err := secretbox.New(key)
		require.ErrorContains(t, err, "64 hexadecimal digits")
	}
}

// A key is changed while values of the one before are there: they open, new ones are
// the new key's, and it can be told which is which.
func TestOldKeysOpenAndDoNotSeal(t *testing.T) {
	t.Parallel()
	first, second, third := strings.Repeat("0a", 32), strings.Repeat("0b", 32), strings.Repeat("0c", 32)
	sealed := box(t, first).Seal([]byte("secret"))
	both, err := secretbox.New(second, third, first)
	require.NoError(t, err)
	secret, key, err := both.Which(sealed)
	require.NoError(t, err)
	require.Equal(t, "secret", string(secret))
	require.Equal(t, 2, key)

	again := both.Seal(secret)
	_, key, err = both.Which(again)
	require.NoError(t, err)
	require.Zero(t, key)
	_, err = box(t, second).Open(again)
	require.NoError(t, err)
	_, err = box(t, first).Open(again)
	require.ErrorContains(t, err, "another key")

	_, err = secretbox.New(second, "00")
	require.ErrorContains(t, err, "64 hexadecimal digits")
}
