package tool_test

import (
	"testing"

	"github.com/portico-run/portico/internal/database/databasetest"
)

func TestMain(m *testing.M) { databasetest.Reuse(m) }
