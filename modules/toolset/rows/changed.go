package rows

import (
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/wake"
)

// Changed is the kind of the topics that say that toolsets have changed: those
// of a user, or, without one, those of everybody.
const Changed = "toolsets"

// everybody is who has the toolsets that all share.
const everybody = ""

func changed(tx database.Tx, uid string) error { return tx.Notify(wake.Topic(Changed, uid)) }
