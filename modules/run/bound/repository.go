package bound

import (
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
)

// repository is the tables bounds and bound_places.
type repository struct{}

type boundRow struct {
	UID        string `gorm:"primaryKey"`
	Scope      string `gorm:"primaryKey"`
	Starts     float64
	RefilledAt time.Time
}

// TableName implements gorm's Tabler.
func (boundRow) TableName() string { return "bounds" }

type placeRow struct {
	UID    string `gorm:"primaryKey"`
	Scope  string `gorm:"primaryKey"`
	NodeID string `gorm:"primaryKey"`
	Places int
}

// TableName implements gorm's Tabler.
func (placeRow) TableName() string { return "bound_places" }

// lives is the condition that the process of a place is believed alive at a moment.
const lives = "EXISTS (SELECT 1 FROM nodes WHERE nodes.node_id = bound_places.node_id AND nodes.expires_at >= ?)"

type name struct{ uid, scope string }

// settle gives what is asked for, as far as there is enough, in the order of the
// scopes, which is the order in which all processes hold them. A system job: a process
// asks for all of its users.
func (rp repository) settle(tx database.Tx, self string, asks []ask, now time.Time) ([]grant, error) {
	fresh, keys := make([]boundRow, len(asks)), make([][]any, len(asks))
	for i, a := range asks {
		fresh[i] = boundRow{UID: a.limit.UID, Scope: a.limit.scope(), Starts: float64(a.limit.Bound.burst()), RefilledAt: now}
		keys[i] = []any{a.limit.UID, a.limit.scope()}
	}
	if err := database.Unscoped(tx.Handle).Clauses(clause.OnConflict{DoNothing: true}).Create(&fresh).Error; err != nil {
		return nil, err
	}
	var rows []boundRow
	if err := database.Lock(database.Unscoped(tx.Handle)).Where("(uid, scope) IN ?", keys).Order("uid, scope").Find(&rows).Error; err != nil {
		return nil, err
	}
	// Only now does a statement see what the others have: they hold the same rows.
	others, err := rp.others(tx, self, keys, now)
	if err != nil {
		return nil, err
	}
	found := make(map[name]boundRow, len(rows))
	for _, r := range rows {
		found[name{r.UID, r.Scope}] = r
	}
	grants, left, places := make([]grant, len(asks)), make([]boundRow, len(asks)), make([]placeRow, len(asks))
	for i, a := range asks {
		n := name{a.limit.UID, a.limit.scope()}
		grants[i] = give(a, found[n], others[n], now)
		left[i] = boundRow{UID: n.uid, Scope: n.scope, Starts: grants[i].left, RefilledAt: now}
		if was := found[n].RefilledAt; was.After(now) { // by a process that reckoned later: no time counts twice
			left[i].RefilledAt = was
		}
		places[i] = placeRow{UID: n.uid, Scope: n.scope, NodeID: self, Places: grants[i].places}
	}
	if err := database.Unscoped(tx.Handle).Clauses(replace([]string{"starts", "refilled_at"}, "uid", "scope")).Create(&left).Error; err != nil {
		return nil, err
	}
	return grants, database.Unscoped(tx.Handle).Clauses(replace([]string{"places"}, "uid", "scope", "node_id")).Create(&places).Error
}

// replace writes columns of rows that are there.
func replace(columns []string, keys ...string) clause.OnConflict {
	c := clause.OnConflict{DoUpdates: clause.AssignmentColumns(columns)}
	for _, k := range keys {
		c.Columns = append(c.Columns, clause.Column{Name: k})
	}
	return c
}

// give reckons what there is for one ask.
func give(a ask, r boundRow, others int, now time.Time) grant {
	b := a.limit.Bound
	g := grant{places: min(a.places, max(0, b.AtOnce-others))}
	if b.PerSecond <= 0 {
		return g
	}
	there := r.Starts + b.PerSecond*max(0, now.Sub(r.RefilledAt).Seconds())
	there = min(float64(b.burst()), there)
	g.starts = min(a.starts, max(0, there))
	g.left = min(float64(b.burst()), there-g.starts)
	return g
}

// others is how many places the other processes have that live.
func (repository) others(tx database.Tx, self string, keys [][]any, now time.Time) (map[name]int, error) {
	var sums []struct {
		UID, Scope string
		Places     int
	}
	err := database.Unscoped(tx.Handle).Model(&placeRow{}).Select("uid, scope, sum(places) AS places").
		Where("(uid, scope) IN ? AND node_id <> ? AND places > 0", keys, self).Where(lives, now).Group("uid, scope").Scan(&sums).Error
	found := make(map[name]int, len(sums))
	for _, s := range sums {
		found[name{s.UID, s.Scope}] = s.Places
	}
	return found, err
}

// purge is a system job: places of processes that are gone, and what was not used for
// a while.
func (repository) purge(tx database.Tx, now, unused time.Time) error {
	every := func() *gorm.DB { return database.Unscoped(tx.Handle) }
	if err := every().Where("places = 0 OR NOT "+lives, now).Delete(&placeRow{}).Error; err != nil {
		return err
	}
	return every().Where("refilled_at < ?", unused).Delete(&boundRow{}).Error
}
