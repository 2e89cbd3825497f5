package cli_test

import (
	"net"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

// A server that cannot listen has made the first user already.
func TestTheFirstKeyIsShownAlsoWhereTheStartFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	env := append(environ(t, databasetest.URL(t, database.SQLite)), "PORTICO_LISTEN="+taken.Addr().String())
	code, out, errs := portico(t, env, "serve")
	require.Equal(t, 1, code, out)
	require.Contains(t, errs, "address already in use")
	key := regexp.MustCompile(`rf_\w+`).FindString(out)
	require.NotEmpty(t, key, out)
	s := serving(t, append(env, "PORTICO_LISTEN=127.0.0.1:0"))
	status, answer := s.get("/v1/canvas/list", "X-API-Key", key)
	require.Equal(t, 200, status, answer)
}
