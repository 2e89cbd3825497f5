package knowledge

import (
	"context"
	"fmt"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/knowledge/vector"
	"github.com/portico-run/portico/modules/knowledge/words"
)

type passageRow struct {
	PK           int64 `gorm:"primaryKey"`
	CollectionPK int64
	DocumentPK   int64
	Ordinal      int
	Title        string
	Section      string
	Framework    string
	Symbol       string
	Text         string
	Model        string
	Embedding    []byte
}

// TableName implements gorm's Tabler.
func (passageRow) TableName() string { return "knowledge_passages" }

// lookup is a full-text search.
type lookup struct {
	words       words.Words
	collections []int64
	framework   string // empty is any
	limit       int
}

// fullText lists the passages with the words of a question, best first.
func (r repository) fullText(h database.Handle, l lookup) ([]int64, error) {
	if l.words.None() || len(l.collections) == 0 {
		return nil, nil
	}
	var pks []int64
	var err error
	switch {
	case h.Dialect() == database.SQLite:
		err = database.Unscoped(h).Raw(sqliteSearch, l.words.FTS5(), l.collections, l.framework, l.framework, l.limit).Scan(&pks).Error
	case l.words.Literal:
		err = database.Unscoped(h).Raw(postgresLiteral, l.words.Web(), l.collections, l.framework, l.framework, l.limit).Scan(&pks).Error
	default:
		plain := l.words.Plain()
		err = database.Unscoped(h).Raw(postgresSearch, plain, plain, plain, l.collections, l.framework, l.framework, l.collections, l.limit).Scan(&pks).Error
	}
	return pks, err
}

// sqliteSearch ranks by BM25. A word counts more in the title or the symbol, and
// in the heading.
const sqliteSearch = `
SELECT p.pk FROM knowledge_words JOIN knowledge_passages p ON p.pk = knowledge_words.rowid
WHERE knowledge_words MATCH ? AND p.collection_pk IN ? AND (? = '' OR p.framework = ?)
ORDER BY bm25(knowledge_words, 4, 2, 4, 1), p.pk LIMIT ?`

// postgresSearch ranks by the words of a question that a passage has, each by how
// rare it is and by ts_rank_cd, which knows the weights of title and heading, but
// not that some words are in nearly every passage. What a word adds saturates,
// as in BM25. A question of nothing but stop words is searched as it is written.
const postgresSearch = `
WITH english AS (SELECT lexeme FROM unnest(to_tsvector('english', ?))),
terms AS (
    SELECT lexeme FROM english
    UNION SELECT lexeme FROM unnest(to_tsvector('simple', ?)) WHERE NOT EXISTS (SELECT FROM english) AND ? <> ''
),
hits AS MATERIALIZED (
    SELECT p.pk, t.lexeme, ts_rank_cd(p.words, quote_literal(t.lexeme)::tsquery) AS rank
    FROM terms t JOIN knowledge_passages p ON p.words @@ quote_literal(t.lexeme)::tsquery
    WHERE p.collection_pk IN ? AND (? = '' OR p.framework = ?)
),
rarity AS (
    SELECT h.lexeme, ln(1 + (a.n - count(*) + 0.5) / (count(*) + 0.5)) AS weight
    FROM hits h CROSS JOIN (SELECT SUM(passages) AS n FROM knowledge_documents WHERE collection_pk IN ?) a GROUP BY h.lexeme, a.n
)
SELECT h.pk FROM hits h JOIN rarity r USING (lexeme)
GROUP BY h.pk ORDER BY SUM(r.weight * h.rank / (h.rank + 0.1)) DESC, h.pk LIMIT ?`

// postgresLiteral takes a question as it is written.
const postgresLiteral = `
SELECT p.pk FROM knowledge_passages p, websearch_to_tsquery('english', ?) q
WHERE p.words @@ q AND p.collection_pk IN ? AND (? = '' OR p.framework = ?)
ORDER BY ts_rank_cd(p.words, q) DESC, p.pk LIMIT ?`

// passages reads some passages of collections, by their rows.
func (r repository) passages(h database.Handle, of []Collection, pks []int64) (map[int64]Passage, error) {
	var rows []struct {
		Passage passageRow `gorm:"embedded"`
		Source  string
	}
	err := database.Unscoped(h).Table("knowledge_passages AS p").Joins("JOIN knowledge_documents d ON d.pk = p.document_pk").
		Select("p.pk, p.collection_pk, p.ordinal, p.title, p.section, p.framework, p.symbol, p.text, d.source").
		Where("p.collection_pk IN ? AND p.pk IN ?", pksOf(of), pks).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	byPK := map[int64]Collection{}
	for _, c := range of {
		byPK[c.pk] = c
	}
	found := make(map[int64]Passage, len(rows))
	for _, row := range rows {
		p := row.Passage
		found[p.PK] = p.passage(byPK[p.CollectionPK], row.Source)
	}
	return found, nil
}

func (r passageRow) passage(c Collection, source string) Passage {
	return Passage{
		Ordinal: r.Ordinal, Title: r.Title, Section: r.Section, Framework: r.Framework, Text: r.Text, Symbol: r.Symbol,
		Source: source, Collection: c.Name, Shared: c.Shared,
	}
}

// passagesOf are those of one document, in their order.
func (r repository) passagesOf(h database.Handle, c Collection, d documentRow) ([]Passage, error) {
	var rows []passageRow
	err := r.within(h, []int64{c.pk}).Omit("embedding").Where("document_pk = ?", d.PK).Order("ordinal").Find(&rows).Error
	list := make([]Passage, len(rows))
	for i, row := range rows {
		list[i] = row.passage(c, d.Source)
	}
	return list, err
}

// stored is where vectors come from.
type stored struct {
	repository

	db *database.DB
}

// Rows implements vector.Source.
func (s stored) Rows(ctx context.Context, k vector.Key) ([]int64, error) {
	var pks []int64
	err := s.within(s.db.Read(ctx), []int64{k.Collection}).Model(&passageRow{}).Where("model = ?", k.Model).Order("pk").Pluck("pk", &pks).Error
	return pks, err
}

// Load implements vector.Source. The vectors of one reading share their memory.
func (s stored) Load(ctx context.Context, k vector.Key, pks []int64) ([]vector.Entry, error) {
	var rows []passageRow
	err := s.within(s.db.Read(ctx), []int64{k.Collection}).Select("pk", "framework", "embedding").
		Where("model = ? AND pk IN ?", k.Model, pks).Order("pk").Find(&rows).Error
	if err != nil {
		return nil, err
	}
	entries, numbers := make([]vector.Entry, len(rows)), make([]float32, len(rows)*k.Dimensions)
	for i, row := range rows {
		v := numbers[i*k.Dimensions : (i+1)*k.Dimensions : (i+1)*k.Dimensions]
		if err := vector.Decode(row.Embedding, v); err != nil {
			return nil, fmt.Errorf("passage %d: %w", row.PK, err)
		}
		entries[i] = vector.Entry{PK: row.PK, Framework: row.Framework, Vector: v}
	}
	return entries, nil
}
