package billing

import "github.com/portico-run/portico/internal/database"

// DB is what a service works on.
func DB(s *Service) *database.DB { return s.db }

// Rows are the row structs, for the check against the live schema.
func Rows() []any {
	return []any{usageRow{}, rechargeRow{}, debtRow{}, subscriptionRow{}, planRow{}, limitRow{}, holdRow{}, rateRow{}}
}
