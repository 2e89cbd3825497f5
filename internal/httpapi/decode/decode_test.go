package decode_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/httpapi/decode"
)

// An integer that is written like 1.0 costs one more look at the body, so that
// there may not be any number of them.
func TestManyWholeNumbersWithAFractionAreRefused(t *testing.T) {
	t.Parallel()
	var into struct {
		Name  string
		Count int
	}
	long := strings.Repeat("x", 2<<20)
	for _, c := range []struct {
		name  string
		times int
		taken bool
	}{{"x", 300, true}, {"x", 3000, false}, {long, 8, true}, {long, 9, false}} {
		err := decode.JSON([]byte(`{"name":"`+c.name+`"`+strings.Repeat(`,"count":1.0`, c.times)+`}`), &into)
		if c.taken {
			require.NoError(t, err)
			require.Equal(t, 1, into.Count)
		} else {
			require.EqualError(t, err, "is full of whole numbers with a fraction or an exponent: write them like 1, not like 1.0")
		}
	}
}
