package repl_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The databases of tests keep one goroutine each, which gorm starts and never
// stops.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}
