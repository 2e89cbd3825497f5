package knowledge_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/accesstest"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/tenant"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/knowledge/knowledgetest"
	"github.com/portico-run/portico/modules/knowledge/read"
)

func TestRowsFitTheTables(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range []any{&knowledge.CollectionRow{}, &knowledge.DocumentRow{}, &knowledge.PassageRow{}} {
			databasetest.CheckRow(t, db, row)
		}
	})
}

func TestUsersFindTheirOwnAndTheOperators(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		f.add(t, knowledge.Of(anna), "notes", "mine.md", "The lantern is red.")
		f.add(t, knowledge.Of(ben), "notes", "bens.md", "The lantern is green.")
		f.add(t, knowledge.Shared(), "notes", "ours.md", "The lantern is blue.")
		f.add(t, knowledge.Shared(), "other", "other.md", "A lantern is a lamp.")
		lantern := knowledge.Query{Text: "lantern"}
		require.ElementsMatch(t, []string{"mine.md", "ours.md", "other.md"}, f.find(t, anna, lantern))
		require.ElementsMatch(t, []string{"bens.md", "ours.md", "other.md"}, f.find(t, ben, lantern))
		lantern.Collection = "notes"
		require.ElementsMatch(t, []string{"mine.md", "ours.md"}, f.find(t, anna, lantern))
		lantern.Collection = "nothing"
		_, err := f.Search(t.Context(), anna, lantern)
		require.ErrorIs(t, err, knowledge.ErrCollectionMissing)
	})
}

func TestEveryMethodIsScoped(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, false)
		f.add(t, knowledge.Of(anna), "notes", "mine.md", "The lantern is red.")
		f.add(t, knowledge.Shared(), "shared", "ours.md", "The lantern is blue.")
		his := knowledge.Of(ben)
		accesstest.Each(t, reflect.TypeFor[*knowledge.Service](), map[string]func(t *testing.T){
			"Search": func(t *testing.T) {
				require.Equal(t, []string{"ours.md"}, f.find(t, ben, knowledge.Query{Text: "lantern"}))
			},
			"Visible": func(t *testing.T) {
				list, err := f.Visible(t.Context(), ben)
				require.NoError(t, err)
				require.Len(t, list, 1)
				require.True(t, list[0].Shared)
			},
			"Owned": func(t *testing.T) {
				list, err := f.Owned(t.Context(), his)
				require.NoError(t, err)
				require.Empty(t, list)
			},
			"Documents": func(t *testing.T) {
				page, err := f.Documents(t.Context(), his, "", httpapi.PageQuery{})
				require.NoError(t, err)
				require.Empty(t, page.Items)
				_, err = f.Documents(t.Context(), his, "shared", httpapi.PageQuery{})
				require.ErrorIs(t, err, knowledge.ErrCollectionMissing)
			},
			"PassagesOf": func(t *testing.T) {
				_, _, err := f.PassagesOf(t.Context(), his, "notes", "mine.md")
				require.ErrorIs(t, err, knowledge.ErrCollectionMissing)
			},
			"Validators": func(t *testing.T) {
				v, err := f.Validators(t.Context(), his, "notes", "mine.md")
				require.NoError(t, err)
				require.Zero(t, v)
			},
			"Remove": func(t *testing.T) {
				require.ErrorIs(t, f.Remove(t.Context(), his, "notes", "mine.md"), knowledge.ErrCollectionMissing)
				require.ErrorIs(t, f.Remove(t.Context(), his, "shared", "ours.md"), knowledge.ErrCollectionMissing, "the operator's")
			},
			"Clear": func(t *testing.T) {
				require.ErrorIs(t, f.Clear(t.Context(), his, "notes"), knowledge.ErrCollectionMissing)
				require.ErrorIs(t, f.Clear(t.Context(), his, "shared"), knowledge.ErrCollectionMissing, "the operator's")
			},
			"Add": func(t *testing.T) {
				f.add(t, his, "notes", "mine.md", "The candle is yellow.") // another collection, another document
				require.ElementsMatch(t, []string{"mine.md", "ours.md"}, f.find(t, anna, knowledge.Query{Text: "lantern"}))
				require.Empty(t, f.find(t, anna, knowledge.Query{Text: "candle"}))
				require.NoError(t, f.Clear(t.Context(), his, "notes"))
			},
		}, nil)
		_, err := f.Add(t.Context(), knowledge.Owner{}, knowledge.Addition{Source: text("a.md", "A text.")})
		require.Equal(t, errs.Forbidden, errs.CodeOf(err), "nobody is not the operator")
		require.Error(t, f.Clear(t.Context(), knowledge.Owner{}, "shared"))
	})
}

func TestUnchangedSourcesAreNotReadAgain(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		own := knowledge.Of(anna)
		require.False(t, f.add(t, own, "", "a.md", "# A\nThe lantern is red.").Unchanged)
		texts := f.service.Texts.Load()
		again := f.add(t, own, "", "a.md", "# A\nThe lantern is red.")
		require.True(t, again.Unchanged)
		require.Equal(t, "A", again.Document.Title)
		require.Equal(t, texts, f.service.Texts.Load(), "no vector is paid for twice")
		require.False(t, f.add(t, own, "", "a.md", "# A\nThe lantern is blue.").Unchanged)
		require.Len(t, f.find(t, anna, knowledge.Query{Text: `"lantern is blue"`}), 1)
		require.Empty(t, f.find(t, anna, knowledge.Query{Text: `"lantern is red"`}), "the old passages are gone, from the index, too")
		f.service = nil
		f.open(t, "")
		require.False(t, f.add(t, own, "", "a.md", "# A\nThe lantern is blue.").Unchanged, "there was a model before")
	})
}

func TestPagesAreAskedForOnlyIfTheyChanged(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		own, says := knowledge.Of(anna), knowledge.Validators{ETag: `"one"`, LastModified: "Mon, 02 Jan 2006 15:04:05 GMT"}
		page := knowledge.Addition{
			Source: read.Source{Name: "https://example.com/"}, Validators: says,
			Document: &read.Document{Title: "Lamps", Sections: []read.Section{{Text: "The lantern is red."}}},
		}
		added, err := f.Add(t.Context(), own, page)
		require.NoError(t, err)
		require.Equal(t, "Lamps", added.Document.Title)
		got, err := f.Validators(t.Context(), own, "", "https://example.com/")
		require.NoError(t, err)
		require.Equal(t, says, got)
		added, err = f.Add(t.Context(), own, page)
		require.NoError(t, err)
		require.True(t, added.Unchanged)
		f.service = nil
		f.open(t, "")
		got, err = f.Validators(t.Context(), own, "", "https://example.com/")
		require.NoError(t, err)
		require.Zero(t, got, "its vectors are of another model")
	})
}

func TestAFailureLeavesTheDocumentAsItWas(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		own := knowledge.Of(anna)
		f.add(t, own, "", "a.md", "The lantern is red.")
		f.service.Broken.Store(http.StatusBadRequest)
		_, err := f.Add(t.Context(), own, knowledge.Addition{Source: text("a.md", "The lantern is blue.")})
		require.Equal(t, errs.Unavailable, errs.CodeOf(err))
		f.service.Broken.Store(0)
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { // the second passage cannot be written
			rule := "CREATE TRIGGER broken BEFORE INSERT ON knowledge_passages WHEN new.ordinal = 1 BEGIN SELECT RAISE(ABORT, 'broken'); END"
			if db.Dialect() == database.Postgres {
				rule = "ALTER TABLE knowledge_passages ADD CONSTRAINT broken CHECK (ordinal <> 1)"
			}
			return database.Unscoped(tx.Handle).Exec(rule).Error
		}))
		_, err = f.Add(t.Context(), own, knowledge.Addition{Source: text("a.md", "# One\nThe lantern is blue.\n# Two\nAnd green.")})
		require.Error(t, err)
		require.Equal(t, []string{"a.md"}, f.find(t, anna, knowledge.Query{Text: `"lantern is red"`}))
		_, passages, err := f.PassagesOf(t.Context(), own, "", "a.md")
		require.NoError(t, err)
		require.Len(t, passages, 1)
	})
}

func TestWithoutAnAnswerOfTheServiceWordsAreSearched(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		f.add(t, knowledge.Of(anna), "", "a.md", "The lantern is red.")
		found, err := f.Search(t.Context(), anna, knowledge.Query{Text: "lantern"})
		require.NoError(t, err)
		require.Empty(t, found.Note)
		require.Greater(t, found.Hits[0].Similarity, 0.1)
		require.InDelta(t, 1, found.Hits[0].Score, 1e-9, "first in both lists")
		f.service.Broken.Store(http.StatusInternalServerError)
		found, err = f.Search(t.Context(), anna, knowledge.Query{Text: "lantern"})
		require.NoError(t, err)
		require.Len(t, found.Hits, 1)
		require.Contains(t, found.Note, "no answer")
	})
}

func TestSearchesSayWhatTheyLeftOut(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		service := f.service
		f.service = nil
		f.open(t, "")
		f.add(t, knowledge.Of(anna), "", "a.md", "The lantern is red.")
		f.service = service
		f.open(t, knowledgetest.Model)
		found, err := f.Search(t.Context(), anna, knowledge.Query{Text: "lantern"})
		require.NoError(t, err)
		require.Len(t, found.Hits, 1)
		require.Contains(t, found.Note, "no vector")
		require.False(t, f.add(t, knowledge.Of(anna), "", "a.md", "The lantern is red.").Unchanged, "it had no vectors")
		f.settings.Memory = 100
		f.open(t, knowledgetest.Model)
		found, err = f.Search(t.Context(), anna, knowledge.Query{Text: "lantern"})
		require.NoError(t, err)
		require.Len(t, found.Hits, 1)
		require.Contains(t, found.Note, "KNOWLEDGE_MEMORY")
	})
}

func TestVectorsFollowTheirDocuments(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		own := knowledge.Of(anna)
		near := knowledge.Query{Text: "lanternish"} // its pieces are near, its words are not there
		f.add(t, own, "", "a.md", "The lamp.")
		require.Equal(t, []string{"a.md"}, f.find(t, anna, near))
		f.add(t, own, "", "b.md", "The lantern.")
		require.Equal(t, []string{"b.md", "a.md"}, f.find(t, anna, near), "the new one is nearer")
		require.NoError(t, f.Remove(t.Context(), own, "", "b.md"))
		require.Equal(t, []string{"a.md"}, f.find(t, anna, near))
		require.NoError(t, f.Clear(t.Context(), own, ""))
		require.Empty(t, f.find(t, anna, near))
	})
}

func TestFrameworksAndSymbolsAreFound(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		for name, framework := range map[string]string{"swiftui.md": "SwiftUI", "uikit.md": "UIKit"} {
			_, err := f.Add(t.Context(), knowledge.Shared(), knowledge.Addition{
				Collection: knowledge.Apple, Framework: framework, Source: text(name, "A view.body_text draws a <VStack> at example.com/path."),
			})
			require.NoError(t, err)
		}
		for _, word := range []string{"body", "view.body_text", "VStack", "path", "draw"} {
			require.Len(t, f.find(t, anna, knowledge.Query{Text: word}), 2, word)
			require.Equal(t, []string{"uikit.md"}, f.find(t, anna, knowledge.Query{Text: word, Framework: "UIKit"}), word)
		}
	})
}

func TestQuestionsAreTakenAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, false)
		own := knowledge.Of(anna)
		f.add(t, own, "", "one.md", "A red lantern hangs at the door.")
		f.add(t, own, "", "two.md", "A lantern hangs at the red door.")
		f.add(t, own, "", "three.md", "The Who\n\nNothing else.")
		for query, want := range map[string][]string{
			`"red lantern"`:            {"one.md"},
			`"red door" lantern`:       {"two.md"},
			`lantern -"red door"`:      {"one.md"},
			"hanging lanterns":         {"one.md", "two.md"},
			"a well-lit zebra lantern": {"one.md", "two.md"},
			`" OR NEAR( * ' ; DROP`:    {},
			"zebra":                    {},
			"-lantern":                 {},
			"!?":                       {},
		} {
			require.ElementsMatch(t, want, f.find(t, anna, knowledge.Query{Text: query}), query)
		}
		for _, bad := range []knowledge.Query{{Text: " "}, {Text: strings.Repeat("a", 4097)}, {Text: "a", TopK: 101}} {
			_, err := f.Search(t.Context(), anna, bad)
			require.Error(t, err)
		}
	})
}

func TestOneUserHasSoMuchRoom(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		f.settings.MaxPassages, f.settings.MaxBytes, f.settings.MaxDocument = 2, 50, 100
		f.open(t, knowledgetest.Model)
		own := knowledge.Of(anna)
		f.add(t, own, "one", "a.md", "A text of twenty-four b.")
		f.add(t, own, "two", "b.md", "A text of twenty-four b.")
		texts := f.service.Texts.Load()
		for _, content := range []string{"A", strings.Repeat("long ", 15)} {
			_, err := f.Add(t.Context(), own, knowledge.Addition{Collection: "one", Source: text("c.md", content)})
			require.ErrorIs(t, err, knowledge.ErrFull)
		}
		require.Equal(t, texts, f.service.Texts.Load(), "no vector is paid for")
		f.add(t, own, "one", "a.md", "Another of twenty-four b") // in its own place
		f.add(t, knowledge.Shared(), "one", "c.md", "The operator has room.")
		f.add(t, knowledge.Of(ben), "one", "c.md", "So has somebody else.")
		_, err := f.Add(t.Context(), own, knowledge.Addition{Source: text("a.md", strings.Repeat("x", 101))})
		require.ErrorIs(t, err, read.ErrTooLarge)
		unsized := text("a.md", strings.Repeat("x", 101))
		unsized.Size = -1
		_, err = f.Add(t.Context(), own, knowledge.Addition{Source: unsized})
		require.ErrorIs(t, err, read.ErrTooLarge)
	})
}

func TestACollectionGoesWithItsLastDocument(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, false)
		own := knowledge.Of(anna)
		f.add(t, own, "notes", "a.md", "One.")
		f.add(t, own, "notes", "b.md", "Two.")
		for left := range 2 {
			list, err := f.Owned(t.Context(), own)
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.NoError(t, f.Remove(t.Context(), own, "notes", []string{"a.md", "b.md"}[left]))
		}
		list, err := f.Owned(t.Context(), own)
		require.NoError(t, err)
		require.Empty(t, list)
		f.add(t, own, "notes", "a.md", "One.")
		require.Equal(t, []string{"a.md"}, f.find(t, anna, knowledge.Query{Text: "one"}))
	})
}

func TestWhatIsHeldIsCounted(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		f.add(t, knowledge.Of(anna), "notes", "a.md", "# One\nThe lantern is red.\n# Two\nSo is the door.")
		f.add(t, knowledge.Of(anna), "notes", "b.md", "The lamp.")
		list, err := f.Owned(t.Context(), knowledge.Of(anna))
		require.NoError(t, err)
		require.Len(t, list, 1)
		c := list[0]
		require.Equal(t, []int64{2, 3, 3}, []int64{c.Documents, c.Passages, c.Vectors})
		require.EqualValues(t, len("The lantern is red.So is the door.The lamp."), c.Bytes)
		page, err := f.Documents(t.Context(), knowledge.Of(anna), "notes", httpapi.PageQuery{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, "b.md", page.Items[0].Source)
		require.NotEmpty(t, page.NextCursor)
	})
}

func TestUsersLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, true)
		f.add(t, knowledge.Of(anna), "notes", "a.md", "The lantern is red.")
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { // as the deletion of a user does
			return database.Scoped(tx.Handle, anna.UID).Exec("DELETE FROM knowledge_collections WHERE uid = ?", anna.UID).Error
		}))
		for _, table := range []string{"knowledge_documents", "knowledge_passages"} {
			var n int64
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Table(table).Count(&n).Error)
			require.Zero(t, n, table)
		}
		if db.Dialect() == database.SQLite {
			var n int64
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT COUNT(*) FROM knowledge_words WHERE knowledge_words MATCH 'lantern'").Scan(&n).Error)
			require.Zero(t, n, "the index")
		}
	})
}

// Nothing is stored any more for a user who is disabled, as one is who is being erased.
func TestNothingIsStoredForUsersWhoAreDisabled(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db, false)
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("UPDATE users SET disabled_at = ? WHERE uid = ?", database.Now(), anna.UID).Error
		}))
		_, err := f.Add(t.Context(), knowledge.Of(anna), knowledge.Addition{Collection: "notes", Source: text("a.md", "late")})
		require.ErrorIs(t, err, tenant.ErrDisabled)
		f.add(t, knowledge.Of(ben), "notes", "a.md", "in time")
	})
}
