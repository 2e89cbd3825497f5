package agent

// Unique is how tools of toolsets are named.
func Unique(name string, taken map[string]bool) string { return unique(name, taken) }
