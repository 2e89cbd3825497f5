package account

// Rows are the row structs, for the check against the live schema.
func Rows() []any { return []any{userRow{}, keyRow{}, identityRow{}} }

// EncodeKey writes given bytes as a key.
func EncodeKey(random [24]byte) Plaintext { return encodeKey(random) }
