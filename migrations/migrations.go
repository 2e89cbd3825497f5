// Package migrations holds the SQL that builds the database, one numbered
// file per step with its way up and down, once per dialect.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// Postgres returns the steps for PostgreSQL.
func Postgres() (fs.FS, error) { return fs.Sub(files, "postgres") }

// SQLite returns the steps for SQLite.
func SQLite() (fs.FS, error) { return fs.Sub(files, "sqlite") }
