package kept

// Busy counts the requests in sessions.
func (k *Keeper) Busy() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sessions {
		n += s.busy
	}
	return n
}
