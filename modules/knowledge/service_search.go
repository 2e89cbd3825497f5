package knowledge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/knowledge/vector"
	"github.com/portico-run/portico/modules/knowledge/words"
)

// Reciprocal rank fusion: a passage gets 1/(60+place) from each list that it is
// in, so that lists whose scores do not compare can be joined. Each list is that
// deep.
const (
	fusion = 60
	depth  = 100
)

// Notes of searches that were less than they could be.
const (
	noteNoAnswer = "The embedding service gave no answer: passages were searched by their words alone."
	noteTooLarge = "Collections are larger than the memory for vectors (KNOWLEDGE_MEMORY): their passages were searched by their words alone."
	noteOthers   = "Some passages have no vector of the configured model: they were searched by their words alone. Adding their documents again makes the vectors."
)

// Search finds the passages of the user's collections, and of the operator's,
// that are about a question. It is ErrCollectionMissing where it names a
// collection that is not there.
func (s *Service) Search(ctx context.Context, a actor.Actor, q Query) (Found, error) {
	if err := q.check(); err != nil {
		return Found{}, err
	}
	of, err := s.rows.visible(s.deps.DB.Read(ctx), a.UID, q.Collection)
	if err == nil && q.Collection != "" && len(of) == 0 {
		err = ErrCollectionMissing.Do("Leave the collection out to search all, or ask for the list of collections.")
	}
	if err != nil || len(of) == 0 {
		return Found{}, err
	}
	asked := words.Parse(q.Text)
	byWords, err := s.rows.fullText(s.deps.DB.Read(ctx), lookup{asked, pksOf(of), q.Framework, depth})
	if err != nil {
		return Found{}, err
	}
	var byVector []vector.Match
	var note string
	// What is taken as it is written has no near misses.
	if s.deps.Embedder != nil && !asked.Literal {
		if byVector, note, err = s.nearest(ctx, of, q); err != nil {
			return Found{}, err
		}
	}
	hits := fuse(byWords, byVector)
	hits, err = s.fill(ctx, of, hits[:min(len(hits), cmp.Or(q.TopK, DefaultTopK))])
	return Found{hits, note}, err
}

func (q Query) check() error {
	switch {
	case strings.TrimSpace(q.Text) == "":
		return errs.New(errs.Invalid, "The question is empty.").Do("Say what you look for.")
	case len(q.Text) > MaxQuery:
		return errs.Newf(errs.TooLarge, "The question has %d bytes, more than %d.", len(q.Text), MaxQuery).Do("Ask in fewer words.")
	case q.TopK < 0 || q.TopK > MaxTopK:
		return errs.Newf(errs.Invalid, "top_k must be between 1 and %d.", MaxTopK)
	}
	return nil
}

// nearest lists the passages whose vectors are nearest to the question's. What
// keeps it from that is a note.
func (s *Service) nearest(ctx context.Context, of []Collection, q Query) ([]vector.Match, string, error) {
	query, err := s.deps.Embedder.EmbedQuery(ctx, q.Text)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		s.deps.Logger.WarnContext(ctx, "the knowledge store searches without vectors", "error", err)
		return nil, noteNoAnswer, nil
	}
	counts, err := s.rows.sums(s.deps.DB.Read(ctx), pksOf(of))
	if err != nil {
		return nil, "", err
	}
	var all []vector.Match
	var notes []string
	for _, c := range of {
		set, err := s.vectors.Get(ctx, vector.Key{Collection: c.pk, Model: s.deps.Embedder.Model(), Dimensions: len(query)}, c.version)
		switch {
		case errors.Is(err, vector.ErrTooLarge):
			notes = append(notes, noteTooLarge)
			continue
		case err != nil:
			return nil, "", err
		case int64(set.Len()) < counts[c.pk].Passages:
			notes = append(notes, noteOthers)
		}
		all = append(all, set.Nearest(query, q.Framework, depth)...)
	}
	slices.SortFunc(all, func(a, b vector.Match) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(a.PK, b.PK))
	})
	slices.Sort(notes)
	return all[:min(depth, len(all))], strings.Join(slices.Compact(notes), " "), nil
}

// fuse joins the lists, best first. The score is 1 for what is first in all that
// have anything.
func fuse(byWords []int64, byVector []vector.Match) []Hit {
	at := map[int64]int{}
	var hits []Hit
	lists := 0
	add := func(place int, pk int64, similarity float64) {
		i, known := at[pk]
		if !known {
			i = len(hits)
			at[pk] = i
			hits = append(hits, Hit{pk: pk})
		}
		hits[i].Score += (fusion + 1) / float64(fusion+1+place)
		hits[i].Similarity = max(hits[i].Similarity, similarity)
		if place == 0 {
			lists++
		}
	}
	for place, pk := range byWords {
		add(place, pk, 0)
	}
	for place, m := range byVector {
		add(place, m.PK, m.Similarity)
	}
	for i := range hits {
		hits[i].Score /= float64(lists)
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits
}

// fill reads the passages of hits. One that was replaced meanwhile is left out.
func (s *Service) fill(ctx context.Context, of []Collection, hits []Hit) ([]Hit, error) {
	if len(hits) == 0 {
		return nil, nil
	}
	pks := make([]int64, len(hits))
	for i, h := range hits {
		pks[i] = h.pk
	}
	passages, err := s.rows.passages(s.deps.DB.Read(ctx), of, pks)
	if err != nil {
		return nil, err
	}
	filled := hits[:0]
	for _, h := range hits {
		if p, there := passages[h.pk]; there {
			h.Passage = p
			filled = append(filled, h)
		}
	}
	return filled, nil
}

// PassagesOf returns the passages of the document of a source, for its owner.
func (s *Service) PassagesOf(ctx context.Context, o Owner, collection, source string) (Document, []Passage, error) {
	h := s.deps.DB.Read(ctx)
	c, err := s.one(h, o, collection)
	if err != nil {
		return Document{}, nil, err
	}
	row, found, err := s.rows.known(h, c.pk, source)
	if err == nil && !found {
		err = ErrDocumentMissing
	}
	if err != nil {
		return Document{}, nil, err
	}
	passages, err := s.rows.passagesOf(h, c, row)
	return row.document(c), passages, err
}

// one is an owner's collection of a name.
func (s *Service) one(h database.Handle, o Owner, name string) (Collection, error) {
	of, err := s.rows.ofOwner(h, o, cmp.Or(name, DefaultCollection))
	if err == nil && len(of) == 0 {
		err = ErrCollectionMissing
	}
	if err != nil {
		return Collection{}, err
	}
	return of[0], nil
}
