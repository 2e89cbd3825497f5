package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/codeapi/session"
)

func TestRowsFitTheSchema(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range session.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}

func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a.txt": "a.txt", "a/b.txt": "a/b.txt", "../../etc/passwd": "etc/passwd", "/etc/passwd": "etc/passwd", "/mnt/data/x": "x",
		`C:\x\y`: "C:/x/y", "a//b/./c": "a/b/c", "": "", ".": "", "/": "", "..": "", "a\x00b": "", "a\nb": "", "\xff": "",
		"ä.txt": "ä.txt", strings.Repeat("x", 256): "", strings.Repeat("x/", 600): "",
		strings.Repeat("a/", 9) + "b": "a/a/a/a/a/a/a/a/a/b", strings.Repeat("a/", 10) + "b": "", strings.Repeat("ä", 127) + "/" + strings.Repeat("ö", 127): strings.Repeat("ä", 127) + "/" + strings.Repeat("ö", 127),
		strings.Repeat("x", 128) + "/" + strings.Repeat("y", 128): "",
	} {
		require.Equal(t, want, session.CleanName(name), "%q", name)
	}
}
