package database

// Waiting counts the transactions of a group that wait for the commit before them.
func Waiting(db *DB, who string) int {
	db.groups.mu.Lock()
	defer db.groups.mu.Unlock()
	if of := db.groups.of[who]; of != nil {
		return len(of.waiting)
	}
	return 0
}
