package stored

// Rows are the row structs, for the check against the live schema.
func Rows() []any { return []any{responseRow{}} }
