package server

// NeedsAuthorization says that a user must authorize Portico at a server's
// authorization server before the server can be used.
type NeedsAuthorization struct {
	// URL is Portico's own address, where the user begins.
	URL string
}

// Error implements error.
func (e NeedsAuthorization) Error() string { return "authorization is needed: " + e.URL }
