// make test runs it without the race detector.
//go:build !race

package app_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// manifest reads the first document of a file of configs/kubernetes.
func manifest(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "configs", "kubernetes", file))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, into))
}

// What scales Portico on Kubernetes asks for numbers that there are: as many processes as
// programs need that run or wait.
func TestScalersAskForWhatThereIs(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.Postgres))
	var hpa struct {
		Spec struct {
			Metrics []struct {
				Pods struct {
					Metric struct{ Name string }
				}
			}
		}
	}
	manifest(t, "components/hpa/hpa.yaml", &hpa)
	metric := hpa.Spec.Metrics[0].Pods.Metric.Name
	require.NotEmpty(t, metric)
	require.Regexp(t, `(?m)^`+regexp.QuoteMeta(metric)+` 0$`, s.send("", "GET", "/metrics", nil).raw)

	var keda struct {
		Spec struct {
			Triggers []struct {
				Metadata struct {
					Query  string
					Target string `yaml:"targetQueryValue"`
				}
			}
		}
	}
	manifest(t, "components/keda/keda.yaml", &keda)
	trigger := keda.Spec.Triggers[0].Metadata
	require.Equal(t, "1", trigger.Target)
	wanted := func() int { return s.count(`SELECT (` + trigger.Query + `)::int`) }
	require.Zero(t, wanted(), "nothing runs")
	join := func(id, role string, running, queued int, draining bool, until string) {
		s.exec(`INSERT INTO nodes (node_id, version, role, capacity, running, queued, draining, started_at, expires_at) VALUES (?, '1', ?, 8, ?, ?, ?, now(), now() + ?::interval)`, id, role, running, queued, draining, until)
	}
	join("one", "all", 8, 0, false, "1 hour")
	require.Equal(t, 2, wanted(), "8 programs on 5.6 turns")
	join("two", "api", 8, 6, false, "1 hour")
	require.Equal(t, 4, wanted(), "22 programs on 5.6 turns")
	join("ends", "all", 8, 60, true, "1 hour")
	join("gone", "all", 8, 60, false, "-1 hour")
	join("programs", "sandbox", 8, 60, false, "1 hour")
	require.Equal(t, 4, wanted(), "one that ends, one that is gone, and one without users")
	s.exec(`DELETE FROM nodes`)
	require.Zero(t, wanted(), "nobody serves")
}
