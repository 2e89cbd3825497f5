// Package poolertest starts PgBouncer for tests.
package poolertest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/portico-run/portico/internal/testenv"
)

const patience = 20 * time.Second

// Start starts a PgBouncer that gives out few connections of a PostgreSQL by the
// transaction, and returns the address of the database behind it. It ends with the
// test.
func Start(t testing.TB, database string) string {
	t.Helper()
	program := testenv.Need(t, "PORTICO_PGBOUNCER", "tools/pgbouncer.sh prints it")
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	address := testenv.FreeAddress(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	file := filepath.Join(t.TempDir(), "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password=%s
[pgbouncer]
listen_addr = %s
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 500
server_tls_sslmode = prefer
`, u.Hostname(), cmp.Or(u.Port(), "5432"), u.User.Username(), password, host, port)
	if os.Getuid() == 0 { // it refuses to be root
		text += "user = nobody\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, file) // Cleanup ends it
	command.Stderr = t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	pooled := *u
	pooled.Host = address
	wait(t, pooled.String())
	return pooled.String()
}

// wait returns when the pooler answers.
func wait(t testing.TB, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			_ = conn.Close(ctx)
			return
		}
		if ctx.Err() != nil {
			t.Fatal("PgBouncer does not answer: ", err)
		}
	}
}
