package guest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// In whatever pieces an output comes: what is kept is its beginning and its
// end, what is missing is counted, and what was passed on is what is kept.
func TestOutputKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		limit := 8 + random.IntN(200)
		var whole strings.Builder
		for range random.IntN(100) {
			whole.WriteString([]string{"a", "é", "€", "🙂", "\n", "word ", "line\n"}[random.IntN(7)])
		}
		var lines []string
		c := &collector{limit: int64(limit), emit: func(line string) { lines = append(lines, line) }}
		for rest := whole.String(); ; {
			piece := min(1+random.IntN(60), len(rest))
			c.add([]byte(rest[:piece]))
			if rest = rest[piece:]; rest == "" {
				break
			}
		}
		c.finish()
		text, about := c.text(), fmt.Sprintf("%d: %q within %d", n, whole.String(), limit)
		require.Equal(t, strings.Split(text, "\n"), append(lines, make([]string, 1+strings.Count(text, "\n")-len(lines))...), about)
		if whole.Len() <= limit {
			require.Equal(t, whole.String(), text, about)
			continue
		}
		head, tail, found := strings.Cut(text, c.notice()+"\n")
		require.True(t, found, about)
		if !strings.HasPrefix(whole.String(), head) { // the notice has a line of its own
			head = strings.TrimSuffix(head, "\n")
		}
		require.True(t, strings.HasPrefix(whole.String(), head), about)
		require.True(t, strings.HasSuffix(whole.String(), tail), about)
		require.LessOrEqual(t, len(c.head)+len(c.tail), limit, about)
		require.Equal(t, whole.Len(), len(c.head)+len(c.tail)+int(c.dropped), about)
		require.NotContains(t, text, "\uFFFD", about)
	}
}

// An endless output takes no more memory than its limit.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	c := &collector{limit: 1 << 20, emit: func(string) {}}
	for range 1000 {
		c.add(bytes.Repeat([]byte("x"), 32<<10))
		require.LessOrEqual(t, cap(c.head)+cap(c.tail), 3<<20)
	}
	require.Equal(t, int64(1000*32<<10), int64(len(c.head)+len(c.tail))+c.dropped)
}
