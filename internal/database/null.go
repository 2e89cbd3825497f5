package database

// Text is what a column holds that may be NULL; empty for NULL.
func Text(column *string) string {
	if column == nil {
		return ""
	}
	return *column
}

// Optional is a text for a column that is NULL where there is none.
func Optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
