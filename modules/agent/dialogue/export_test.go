package dialogue

// Hurry ends the time in which the client of a turn may come back.
func Hurry(t Turn) { t.(*turn).left() }

// Bound sets how many bytes the conversations of a service may have.
func Bound(s *Service, bytes int64) { s.most = bytes }
