package flat

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// What a server claims of its tool may refuse a mark, and never grants one.
func TestHintsOnlyTighten(t *testing.T) {
	t.Parallel()
	yes, no := new(bool), new(bool)
	*yes = true
	reads, repeats := mark.Mark{ReadOnly: true}, mark.Mark{Idempotent: true}
	for _, c := range []struct {
		m     mark.Mark
		h     server.Hints
		wants string
	}{
		{reads, server.Hints{}, ""},
		{repeats, server.Hints{}, ""},
		{reads, server.Hints{ReadOnly: yes}, ""},
		{reads, server.Hints{ReadOnly: no}, "readOnlyHint is false"},
		{reads, server.Hints{Destructive: yes}, "destructiveHint is true"},
		{reads, server.Hints{ReadOnly: yes, Destructive: yes}, ""}, // the second means nothing then
		{repeats, server.Hints{ReadOnly: no}, ""},
		{repeats, server.Hints{Idempotent: no}, "idempotentHint is false"},
		{repeats, server.Hints{ReadOnly: no, Destructive: yes, Idempotent: yes}, "destructiveHint is true"},
		{reads, server.Hints{Idempotent: no}, ""},
	} {
		got := contradicts(c.m, c.h)
		if c.wants == "" {
			require.Empty(t, got, "%+v %+v", c.m, c.h)
			continue
		}
		require.Contains(t, got, c.wants)
	}
}
