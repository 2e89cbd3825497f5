package database

import "gorm.io/gorm"

// Window is the part of a list that a page shows. A list is sorted by row
// number.
type Window struct {
	After  int64 // the row that the page begins after; 0 for the beginning
	Offset int   // rows to leave out after it
	Limit  int   // rows of the page
	Count  bool  // the whole list is counted as well
}

// Newest reads the rows of a window, the newest first, and one more if there are
// more. total is nil unless the window counts.
func Newest[R any](q *gorm.DB, w Window) (rows []R, total *int64, err error) {
	return windowed[R](q, w, "pk < ?", "pk DESC")
}

// Oldest is Newest the other way round.
func Oldest[R any](q *gorm.DB, w Window) (rows []R, total *int64, err error) {
	return windowed[R](q, w, "pk > ?", "pk")
}

func windowed[R any](q *gorm.DB, w Window, after, order string) (rows []R, total *int64, err error) {
	q = q.Model(new(R)).Session(&gorm.Session{}) // both queries begin here
	if w.Count {
		total = new(int64)
		if err := q.Count(total).Error; err != nil {
			return nil, nil, err
		}
	}
	if w.After > 0 {
		q = q.Where(after, w.After)
	}
	return rows, total, q.Order(order).Offset(w.Offset).Limit(w.Limit + 1).Find(&rows).Error
}
