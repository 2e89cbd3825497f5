package httpapi

import "time"

// SetBodyTime changes how long reading a body may take, for operations that are
// added later.
func (a *API) SetBodyTime(d time.Duration) { a.bodyTime = d }

// SetLookTime changes how often a credential is looked at again.
func (a *API) SetLookTime(d time.Duration) { a.lookTime = d }
