package oauth

// Rows are the tables of this package.
func Rows() []any { return []any{grantRow{}, flowRow{}, clientRow{}} }
