package password_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/account/password"
)

func TestAHashIsOfOnePassword(t *testing.T) {
	t.Parallel()
	h := password.New()
	hash, err := h.Hash(t.Context(), "correct horse")
	require.NoError(t, err)
	require.Regexp(t, `^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`, hash)
	again, err := h.Hash(t.Context(), "correct horse")
	require.NoError(t, err)
	require.NotEqual(t, hash, again, "each has a salt of its own")
	for text, want := range map[string]bool{"correct horse": true, "correct horsf": false, "": false, "correct horse ": false} {
		got, err := h.Matches(t.Context(), hash, text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "correct horse"} {
		got, err := h.Matches(t.Context(), "", text)
		require.NoError(t, err)
		require.False(t, got, "who has no password has none")
	}
}

func TestHashesOfOtherCostsAreCheckedWithinBounds(t *testing.T) {
	t.Parallel()
	h := password.New()
	// Of the reference implementation: echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1 -l 32
	got, err := h.Matches(t.Context(), "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc", "password")
	require.NoError(t, err)
	require.True(t, got)
	for _, hash := range []string{
		"password", "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
		"$argon2id$v=19$m=9999999,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc", "$argon2id$v=19$m=65536,t=0,p=1$c29tZXNhbHQ$AA",
		"$argon2id$v=19$m=65536,t=2,p=1$!$AA", "$argon2id$v=19$m=65536,t=2,p=1$AA$!", "$argon2id$v=19$m=x$AA$AA",
	} {
		_, err := h.Matches(t.Context(), hash, "password")
		require.Error(t, err, hash)
	}
}

func TestPasswordsHaveALength(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"ten signs!": true, "nine sign": false, strings.Repeat("ü", 10): true, strings.Repeat("x", 1024): true, strings.Repeat("x", 1025): false, "not text \xff\xff": false,
	} {
		err := password.Check(text)
		require.Equal(t, good, err == nil, text)
	}
}

func TestWhoWaitsTooManyIsToldToComeBack(t *testing.T) {
	t.Parallel()
	h := password.New()
	var busy, done atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if _, err := h.Matches(t.Context(), "", "x"); err == nil {
				done.Add(1)
			} else {
				require.ErrorIs(t, err, password.ErrBusy)
				busy.Add(1)
			}
		})
	}
	all.Wait()
	require.Positive(t, done.Load())
	require.Positive(t, busy.Load())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var failed atomic.Int32
	for range 8 {
		all.Go(func() {
			if _, err := h.Matches(ctx, "", "x"); err != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	require.Positive(t, failed.Load(), "who has gone is not waited for")
}
