package sealed

import (
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
)

// repository is the columns of Columns, of all users: the key is the server's.
type repository struct{}

// value is a sealed text and where it is.
type value struct {
	PK   int64
	Text string
}

// after lists values of a column in the order of their rows.
func (repository) after(h database.Handle, c Column, pk int64, most int) ([]value, error) {
	var values []value
	err := database.Unscoped(h).Table(c.Table).Select("pk, "+c.Name+" AS text").Where("pk > ? AND "+c.Name+" IS NOT NULL", pk).
		Order("pk").Limit(most).Scan(&values).Error
	return values, err
}

// replace writes a text in place of the one that was read. It reports false where that
// has changed meanwhile, or a process works with it.
func (repository) replace(tx database.Tx, c Column, of value, text string, now time.Time) (bool, error) {
	q := database.Unscoped(tx.Handle).Table(c.Table).Where("pk = ? AND "+c.Name+" = ?", of.PK, of.Text)
	if c.claimed {
		q = q.Where("refreshing_until IS NULL OR refreshing_until < ?", now)
	}
	q = q.Updates(map[string]any{c.Name: gorm.Expr("?", text)})
	return q.RowsAffected == 1, q.Error
}
