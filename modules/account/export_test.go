package account

// Rows are the row structs, for the check against the live schema.
func Rows() []any { return []any{userRow{}, keyRow{}, identityRow{}} }

// EncodeKey writes given bytes as a key.
func EncodeKey(random [24]byte) Plaintext { return encodeKey(random) }

// Belongings are the tables whose rows a user's deletion looks at.
func Belongings() []string {
	var tables []string
	for _, b := range belongings() {
		tables = append(tables, b.table)
	}
	return tables
}
