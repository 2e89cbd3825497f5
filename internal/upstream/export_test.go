package upstream

// Watched is how many upstreams are watched.
func Watched(c *Caller) int {
	c.breakers.mu.Lock()
	defer c.breakers.mu.Unlock()
	return len(c.breakers.origins)
}
