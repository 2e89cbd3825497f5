package database

import "fmt"

// Alone reports whether no other process is in a transaction that has asked for the same
// name, and keeps others out until this one ends. SQLite's writing transactions are alone
// anyway.
func (tx Tx) Alone(name string) (bool, error) {
	if tx.dialect != Postgres {
		return true, nil
	}
	var alone bool
	if err := tx.g.Raw("SELECT pg_try_advisory_xact_lock(hashtextextended(?, 0))", "portico "+name).Scan(&alone).Error; err != nil {
		return false, fmt.Errorf("ask to be alone in %s: %w", name, err)
	}
	return alone, nil
}
