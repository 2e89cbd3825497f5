package codeapi

// Rows are the row structs, for the check against the live schema.
func Rows() []any { return []any{sessionRow{}, fileRow{}, inputRow{}, executionRow{}} }

// CleanName is cleanName.
func CleanName(name string) string { return cleanName(name) }
