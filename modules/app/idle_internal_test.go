package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsGivenBackOnceAfterEachBurst(t *testing.T) {
	t.Parallel()
	var total uint64
	var given []int
	look := 0
	i := &idler{allocated: func() uint64 { return total }, give: func() { given = append(given, look) }}
	for n, more := range []uint64{20 << 20, 20 << 20, 1000, 1000, 0, quiet, 30 << 20, quiet + 1, 10, 10} {
		total, look = total+more, n
		i.look()
	}
	require.Equal(t, []int{2, 8}, given)
}
