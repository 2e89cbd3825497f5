package httpapi

import "time"

// SetBodyTime changes how long reading a body may take, for operations that are
// added later.
func (a *API) SetBodyTime(d time.Duration) { a.bodyTime = d }
