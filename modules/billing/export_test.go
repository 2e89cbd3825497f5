package billing

import "encoding/json"

// Rows are the row structs, for the check against the live schema.
func Rows() []any {
	return []any{usageRow{}, rechargeRow{}, debtRow{}, subscriptionRow{}, planRow{}, limitRow{}, holdRow{}, rateRow{}}
}

// TypeAt is the type a schema declares at a path.
func TypeAt(schema, path string) string {
	var s any
	p, err := parsePath(path)
	if err != nil || json.Unmarshal([]byte(schema), &s) != nil {
		return "broken"
	}
	return typeAt(s, p)
}
