package mcpserver

// MaxWaiting is how many calls of one user wait at once.
const MaxWaiting = maxWaiting

// Enter lets a call of a user wait until leave is called.
func (m *Module) Enter(uid string) (leave func(), err error) { return m.enter(uid) }
