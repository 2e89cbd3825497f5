package databasetest

import (
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/portico-run/portico/internal/database"
)

// CheckRow fails when a row struct and its live table disagree: a field
// without a column, or a column that an insert must fill and the struct does
// not know.
func CheckRow(t *testing.T, db *database.DB, row any) {
	t.Helper()
	parsed, err := schema.Parse(row, &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		t.Fatal(err)
	}
	g := database.Unscoped(db.Read(t.Context()))
	columns, err := g.Migrator().ColumnTypes(parsed.Table)
	if err != nil || len(columns) == 0 {
		t.Fatalf("table %s cannot be read: %v", parsed.Table, err)
	}
	live := map[string]gorm.ColumnType{}
	for _, c := range columns {
		live[strings.ToLower(c.Name())] = c
	}
	for name := range parsed.FieldsByDBName {
		if _, ok := live[name]; !ok {
			t.Errorf("%s.%s is in the row struct and not in the database", parsed.Table, name)
		}
	}
	for name, c := range live {
		if _, known := parsed.FieldsByDBName[name]; known {
			continue
		}
		nullable, _ := c.Nullable()
		_, hasDefault := c.DefaultValue()
		if !nullable && !hasDefault {
			t.Errorf("%s.%s must be filled and the row struct does not know it", parsed.Table, name)
		}
	}
}
