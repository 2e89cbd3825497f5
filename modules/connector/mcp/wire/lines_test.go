package wire_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/connector/mcp/wire"
)

// A server counts its requests by itself: one over the limit is not the answer to the
// client's request of that number.
func TestALongRequestIsNoAnswer(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	long, answer := `"`+strings.Repeat("x", 2*limit)+`"`, `{"jsonrpc":"2.0","id":7,"result":{}}`+"\n"
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"a","params":` + long + `}`: answer,
		`{"jsonrpc":"2.0","id":7,"params":` + long + `,"method":"a"}`: answer,
		`{"jsonrpc":"2.0","method":"a","params":` + long + `,"id":7}`: answer,
		`{"jsonrpc":"2.0","method":"a","params":` + long + `}`:        answer,
		`{"jsonrpc":"2.0","id":6,"result":` + long + `}`:              `{"jsonrpc":"2.0","id":6,"error":{"code":-31999,"message":"102400"}}` + "\n" + answer,
		`{"jsonrpc":"2.0","result":` + long + `,"id":6}`:              `{"jsonrpc":"2.0","id":6,"error":{"code":-31999,"message":"102400"}}` + "\n" + answer,
	} {
		var notes []string
		l := wire.NewLines(io.NopCloser(strings.NewReader(message+"\n"+answer)), limit, func(line []byte) { notes = append(notes, string(line)) })
		got, err := io.ReadAll(l)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.Equal(t, strings.Contains(message, "method"), len(notes) == 1)
	}
}
