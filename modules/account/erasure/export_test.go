package erasure

// Deleted are the tables whose rows about a user go, in the order in which they do, and
// Kept those whose rows stay, with the reason.
func Plan() (deleted []string, kept map[string]string) {
	kept = map[string]string{}
	for _, p := range parts() {
		if p.clear != nil {
			kept[p.table] = p.kept
		} else {
			deleted = append(deleted, p.table)
		}
	}
	return deleted, kept
}

// Tables are all of the plan, in its order.
func Tables() []string {
	var tables []string
	for _, p := range parts() {
		tables = append(tables, p.table)
	}
	return tables
}
