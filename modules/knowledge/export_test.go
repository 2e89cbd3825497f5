package knowledge

// The row structs, for the check against the live tables.
type (
	CollectionRow = collectionRow
	DocumentRow   = documentRow
	PassageRow    = passageRow
)
