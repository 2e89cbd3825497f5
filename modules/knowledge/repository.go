package knowledge

import (
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// repository is the SQL of this module. Documents and passages belong to whom
// their collection belongs: every query of them names collections that were found
// for a user.
type repository struct{}

type collectionRow struct {
	PK        int64 `gorm:"primaryKey"`
	UID       *string
	Name      string
	Version   int64
	CreatedAt time.Time `gorm:"autoCreateTime:false"`
	UpdatedAt time.Time `gorm:"autoUpdateTime:false"`
}

// TableName implements gorm's Tabler.
func (collectionRow) TableName() string { return "knowledge_collections" }

func (r collectionRow) collection() Collection {
	return Collection{Name: r.Name, Shared: r.UID == nil, UpdatedAt: r.UpdatedAt.UTC(), pk: r.PK, version: r.Version}
}

type documentRow struct {
	PK           int64 `gorm:"primaryKey"`
	CollectionPK int64
	Source       string
	Title        string
	Framework    string
	Hash         string
	Etag         string
	LastModified string
	Model        string
	Bytes        int64
	Passages     int
	CreatedAt    time.Time `gorm:"autoCreateTime:false"`
	UpdatedAt    time.Time `gorm:"autoUpdateTime:false"`
}

// TableName implements gorm's Tabler.
func (documentRow) TableName() string { return "knowledge_documents" }

func (r documentRow) document(c Collection) Document {
	return Document{
		Collection: c.Name, Shared: c.Shared, Source: r.Source, Title: r.Title, Framework: r.Framework, Passages: r.Passages, Bytes: r.Bytes,
		Model: r.Model, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), pk: r.PK,
	}
}

// owned are the collections of one owner.
func (repository) owned(h database.Handle, o Owner) (*gorm.DB, error) {
	switch {
	case o.shared && o.uid == "":
		return database.Unscoped(h).Where("uid IS NULL"), nil
	case o.uid != "" && !o.shared:
		return database.Scoped(h, o.uid), nil
	}
	return nil, errNobody
}

// visible are the collections that a user searches, those of the operator among
// them: all, or those of a name.
func (repository) visible(h database.Handle, uid, name string) ([]Collection, error) {
	if uid == "" {
		return nil, errNobody
	}
	q := database.Unscoped(h).Where("uid = ? OR uid IS NULL", uid)
	if name != "" {
		q = q.Where("name = ?", name)
	}
	return collections(q)
}

// collections reads those of a query, by name, the user's before the operator's.
func collections(q *gorm.DB) ([]Collection, error) {
	var rows []collectionRow
	err := q.Order("name, uid IS NULL, pk").Find(&rows).Error
	list := make([]Collection, len(rows))
	for i, r := range rows {
		list[i] = r.collection()
	}
	return list, err
}

// ofOwner are the collections of one owner: all, or those of a name.
func (r repository) ofOwner(h database.Handle, o Owner, name string) ([]Collection, error) {
	q, err := r.owned(h, o)
	if err != nil {
		return nil, err
	}
	if name != "" {
		q = q.Where("name = ?", name)
	}
	return collections(q)
}

// claim finds an owner's collection, or makes it, and keeps other changes of it
// out until the transaction ends.
func (r repository) claim(tx database.Tx, o Owner, name string, at time.Time) (Collection, error) {
	q, err := r.owned(tx.Handle, o)
	if err != nil {
		return Collection{}, err
	}
	row := collectionRow{Name: name, UID: database.Optional(o.uid), CreatedAt: at, UpdatedAt: at}
	err = database.Unscoped(tx.Handle).Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error // the row carries its uid
	if err != nil {
		return Collection{}, err
	}
	var found collectionRow
	err = database.Lock(q).Where("name = ?", name).Take(&found).Error
	if errors.Is(err, database.ErrNotFound) { // its last document went just now, and it with that
		err = errs.New(errs.Conflict, "The collection was removed meanwhile.").Do("Try again.")
	}
	return found.collection(), err
}

// changed says that the passages of a collection are others now.
func (repository) changed(tx database.Tx, pk int64, at time.Time) error {
	return database.MustAffect(database.Unscoped(tx.Handle).Model(&collectionRow{}).Where("pk = ?", pk).
		Updates(map[string]any{"version": gorm.Expr("version + 1"), "updated_at": at}), ErrCollectionMissing)
}

// sweep deletes a collection that nothing is in.
func (r repository) sweep(tx database.Tx, pk int64) error {
	var left documentRow
	err := r.within(tx.Handle, []int64{pk}).Select("pk").Take(&left).Error
	if errors.Is(err, database.ErrNotFound) {
		err = database.Unscoped(tx.Handle).Where("pk = ?", pk).Delete(&collectionRow{}).Error
	}
	return err
}

// sums is what collections hold.
type sums struct {
	CollectionPK               int64
	Documents, Passages, Bytes int64
}

// sums counts what each of some collections holds.
func (r repository) sums(h database.Handle, pks []int64) (map[int64]sums, error) {
	var rows []sums
	err := r.within(h, pks).Table("knowledge_documents").
		Select("collection_pk, COUNT(*) AS documents, SUM(passages) AS passages, SUM(bytes) AS bytes").Group("collection_pk").Scan(&rows).Error
	found := map[int64]sums{}
	for _, s := range rows {
		found[s.CollectionPK] = s
	}
	return found, err
}

// vectors counts the passages with a vector of a model.
func (r repository) vectors(h database.Handle, pks []int64, model string) (map[int64]int64, error) {
	var rows []struct{ CollectionPK, Vectors int64 }
	err := r.within(h, pks).Table("knowledge_passages").Where("model = ?", model).
		Select("collection_pk, COUNT(*) AS vectors").Group("collection_pk").Scan(&rows).Error
	found := map[int64]int64{}
	for _, row := range rows {
		found[row.CollectionPK] = row.Vectors
	}
	return found, err
}

// within are rows of collections, which the caller has found for a user.
func (repository) within(h database.Handle, pks []int64) *gorm.DB {
	return database.Unscoped(h).Where("collection_pk IN ?", pks)
}

// known is the document of a source.
func (r repository) known(h database.Handle, collection int64, source string) (row documentRow, found bool, err error) {
	err = r.within(h, []int64{collection}).Where("source = ?", source).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return documentRow{}, false, nil
	}
	return row, err == nil, err
}

// documents lists those of collections, the newest first.
func (r repository) documents(h database.Handle, of []Collection, w database.Window) ([]Document, *int64, error) {
	byPK := map[int64]Collection{}
	pks := pksOf(of)
	for _, c := range of {
		byPK[c.pk] = c
	}
	rows, total, err := database.Newest[documentRow](r.within(h, pks), w)
	list := make([]Document, len(rows))
	for i, row := range rows {
		list[i] = row.document(byPK[row.CollectionPK])
	}
	return list, total, err
}

func pksOf(list []Collection) []int64 {
	pks := make([]int64, len(list))
	for i, c := range list {
		pks[i] = c.pk
	}
	return pks
}

// passageBatch is how many passages are written with one statement.
const passageBatch = 200

// insert writes a document with its passages.
func (repository) insert(tx database.Tx, d *documentRow, passages []passageRow) error {
	if err := database.Unscoped(tx.Handle).Create(d).Error; err != nil {
		return err
	}
	for i := range passages {
		passages[i].CollectionPK, passages[i].DocumentPK = d.CollectionPK, d.PK
	}
	return database.Unscoped(tx.Handle).CreateInBatches(passages, passageBatch).Error
}

// remove deletes the document of a source with its passages, and reports
// whether there was one.
func (r repository) remove(tx database.Tx, collection int64, source string) (bool, error) {
	d := r.within(tx.Handle, []int64{collection}).Where("source = ?", source).Delete(&documentRow{})
	return d.RowsAffected > 0, d.Error
}

// clear deletes a collection with all that is in it.
func (r repository) clear(tx database.Tx, o Owner, name string) error {
	q, err := r.owned(tx.Handle, o)
	if err != nil {
		return err
	}
	return database.MustAffect(q.Where("name = ?", name).Delete(&collectionRow{}), ErrCollectionMissing)
}
