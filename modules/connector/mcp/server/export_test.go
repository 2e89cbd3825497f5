package server

// Rows are the tables of this package.
func Rows() []any { return []any{serverRow{}, listRow{}, credentialRow{}} }
