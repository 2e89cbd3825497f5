package read_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/knowledge/read"
)

func TestDocCArchivesBecomeDocuments(t *testing.T) {
	t.Parallel()
	sources, err := read.Archive(os.DirFS("testdata/Lantern.doccarchive"), "Lantern.doccarchive")
	require.NoError(t, err)
	got := map[string]read.Document{}
	var text strings.Builder
	for _, s := range sources {
		d, err := read.DocC{}.Read(t.Context(), s)
		require.NoError(t, err, s.Name)
		got[s.Name] = d
		fmt.Fprintf(&text, "%s\n%s | %s | %s\n", d.Source, d.Title, d.Framework, d.Symbol)
		for _, section := range d.Sections {
			fmt.Fprintf(&text, "--- %s\n%s\n", section.Title, section.Text)
		}
		text.WriteString("\n")
	}
	require.Len(t, got, 3, "tutorials are left out")
	blink := got["docc://Lantern/documentation/lanternkit/beacon/blink"]
	require.Equal(t, "LanternKit", blink.Framework)
	require.Equal(t, "Beacon.blink(times:every:)", blink.Symbol)
	require.Empty(t, got["docc://Lantern/documentation/lanternkit/pairing-a-lamp"].Symbol)
	require.Empty(t, got["docc://Lantern/documentation/lanternkit"].Symbol)
	golden := filepath.Join("testdata", "docc.txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text.String(), "\n")))
}

func TestWhatIsNoDocCArchiveSaysSo(t *testing.T) {
	t.Parallel()
	_, err := read.Archive(fstest.MapFS{"data/documentation/readme.txt": {}}, "x")
	require.ErrorIs(t, err, read.ErrType)
	_, err = read.Archive(fstest.MapFS{"other": {}}, "x")
	require.Error(t, err)
	for text, want := range map[string]error{
		`[1]`: read.ErrDamaged, `{"a":1}`: read.ErrType, `no json`: read.ErrDamaged,
		`{"identifier":{"url":"doc://a/documentation/A"},"metadata":{"title":"A"}}`: read.ErrEmpty,
	} {
		_, err := read.DocC{}.Read(t.Context(), source("a.json", "", []byte(text)))
		require.ErrorIs(t, err, want, text)
	}
	// A long title that is referred to often makes a short page long.
	bomb := `{"identifier":{"url":"doc://a/documentation/A"},"metadata":{"title":"A"},"references":{"r":{"title":"` + strings.Repeat("x", 1<<20) + `"}},
		"seeAlsoSections":[{"identifiers":["r"` + strings.Repeat(`,"r"`, 100_000) + `]}]}`
	_, err = read.DocC{}.Read(t.Context(), source("a.json", "", []byte(bomb)))
	require.ErrorIs(t, err, read.ErrTooLarge)
}
