package database

// Waiting counts the transactions of a group that wait for the commit before them.
func Waiting(db *DB, who string) int {
	db.groups.mu.Lock()
	defer db.groups.mu.Unlock()
	if of := db.groups.of[db.groupOf(who)]; of != nil {
		return len(of.waiting)
	}
	return 0
}

// Committing says whether a transaction of a group is under way.
func Committing(db *DB, who string) bool {
	db.groups.mu.Lock()
	defer db.groups.mu.Unlock()
	return db.groups.of[db.groupOf(who)] != nil
}
