package signing_test

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/signing"
)

func claims() jwt.RegisteredClaims {
	return jwt.RegisteredClaims{Subject: "u-anna", ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Minute))}
}

// What the key before signed is taken, and what is signed now is the new key's.
func TestOldKeysAreTakenAndDoNotSign(t *testing.T) {
	t.Parallel()
	first, second := signing.Keys{[]byte("first")}, signing.Keys{[]byte("second")}
	both := signing.Keys{second[0], first[0]}
	for _, from := range []signing.Keys{first, second, both} {
		token, err := from.Token(claims())
		require.NoError(t, err)
		var got jwt.RegisteredClaims
		require.NoError(t, both.Parse(token, &got))
		require.Equal(t, "u-anna", got.Subject)
		require.True(t, both.Signed("text", from.Sum("text")))
	}
	token, err := both.Token(claims())
	require.NoError(t, err)
	require.NoError(t, second.Parse(token, &jwt.RegisteredClaims{}))
	require.ErrorIs(t, first.Parse(token, &jwt.RegisteredClaims{}), jwt.ErrTokenSignatureInvalid)
	require.False(t, first.Signed("text", both.Sum("text")))
}

// Keys of one purpose take nothing of another one, old or new.
func TestPurposesAreApart(t *testing.T) {
	t.Parallel()
	all := signing.Keys{[]byte("second"), []byte("first")}
	links, err := all.For("links")
	require.NoError(t, err)
	tickets, err := all.For("tickets")
	require.NoError(t, err)
	require.Len(t, links, 2)
	token, err := links.Token(claims())
	require.NoError(t, err)
	require.NoError(t, links.Parse(token, &jwt.RegisteredClaims{}))
	for _, other := range []signing.Keys{tickets, all} {
		require.Error(t, other.Parse(token, &jwt.RegisteredClaims{}))
		require.False(t, other.Signed("text", links.Sum("text")))
	}
}

// Without a key nothing is signed, and nothing is taken: an empty one is a key that
// everybody knows.
func TestWithoutAKeyNothingIsTaken(t *testing.T) {
	t.Parallel()
	var none signing.Keys
	_, err := none.Token(claims())
	require.Error(t, err)
	forged, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims()).SignedString([]byte{})
	require.NoError(t, err)
	require.Error(t, none.Parse(forged, &jwt.RegisteredClaims{}))
	require.False(t, none.Signed("text", none.Sum("text")))

	keys := signing.Keys{[]byte("key")}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims()).SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)
	require.Error(t, keys.Parse(unsigned, &jwt.RegisteredClaims{}))
	endless, err := keys.Token(jwt.RegisteredClaims{Subject: "u-anna"})
	require.NoError(t, err)
	require.Error(t, keys.Parse(endless, &jwt.RegisteredClaims{}))
}
