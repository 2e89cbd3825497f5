package toolset

import (
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
)

// audit keeps who changed a credential or a connection.
func (s *Service) audit(tx database.Tx, a actor.Actor, action, subject string, detail map[string]string) error {
	return audit.Write(tx, a, action, subject, detail, s.Now())
}
