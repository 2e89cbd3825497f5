package knowledge

import (
	"cmp"
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/tenant"
)

// Visible lists the collections that a user searches, with what they hold.
func (s *Service) Visible(ctx context.Context, a actor.Actor) ([]Collection, error) {
	h := s.deps.DB.Read(ctx)
	of, err := s.rows.visible(h, a.UID, "")
	return s.counted(h, of, err)
}

// Owned lists the collections of an owner, with what they hold.
func (s *Service) Owned(ctx context.Context, o Owner) ([]Collection, error) {
	h := s.deps.DB.Read(ctx)
	of, err := s.rows.ofOwner(h, o, "")
	return s.counted(h, of, err)
}

func (s *Service) counted(h database.Handle, of []Collection, err error) ([]Collection, error) {
	if err != nil || len(of) == 0 {
		return of, err
	}
	sums, err := s.rows.sums(h, pksOf(of))
	if err != nil {
		return nil, err
	}
	var vectors map[int64]int64
	if s.deps.Embedder != nil {
		if vectors, err = s.rows.vectors(h, pksOf(of), s.deps.Embedder.Model()); err != nil {
			return nil, err
		}
	}
	for i := range of {
		held := sums[of[i].pk]
		of[i].Documents, of[i].Passages, of[i].Bytes, of[i].Vectors = held.Documents, held.Passages, held.Bytes, vectors[of[i].pk]
	}
	return of, nil
}

// Documents lists a page of the documents of an owner's, of all collections or of
// one, the newest first.
func (s *Service) Documents(ctx context.Context, o Owner, collection string, page httpapi.PageQuery) (httpapi.Page[Document], error) {
	w, err := page.Window()
	if err != nil {
		return httpapi.Page[Document]{}, err
	}
	h := s.deps.DB.Read(ctx)
	of, err := s.rows.ofOwner(h, o, collection)
	if err == nil && collection != "" && len(of) == 0 {
		err = ErrCollectionMissing
	}
	if err != nil {
		return httpapi.Page[Document]{}, err
	}
	list, total, err := s.rows.documents(h, of, w)
	return httpapi.PageOf(w, list, total, func(d Document) int64 { return d.pk }), err
}

// Remove deletes the document of a source from an owner's collection, which goes
// with its last document.
func (s *Service) Remove(ctx context.Context, o Owner, collection, source string) error {
	return s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		if !o.shared {
			if err := tenant.Lock(tx, o.uid); err != nil {
				return err
			}
		}
		c, err := s.one(tx.Handle, o, collection)
		if err != nil {
			return err
		}
		removed, err := s.rows.remove(tx, c.pk, source)
		if err != nil {
			return err
		}
		if !removed {
			return ErrDocumentMissing
		}
		if err := s.rows.changed(tx, c.pk, s.now()); err != nil {
			return err
		}
		return s.rows.sweep(tx, c.pk)
	})
}

// Clear deletes an owner's collection with all that is in it.
func (s *Service) Clear(ctx context.Context, o Owner, collection string) error {
	return s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		return s.rows.clear(tx, o, cmp.Or(collection, DefaultCollection))
	})
}
