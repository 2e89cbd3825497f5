package example

// documents are the examples of names of the knowledge store.
func documents(name string) []any {
	switch name {
	case "collection", "KnowledgeCollection.name":
		return []any{"handbook"}
	case "KnowledgeDocument.source", "KnowledgePassage.source", "KnowledgeSource.source", "KnowledgeAddInputBody.source", "KnowledgeFileInputBody.source", "KnowledgeForm.source":
		return []any{"handbook/heating.md"}
	case "KnowledgeDocument.title", "KnowledgePassage.title", "KnowledgeSource.title", "KnowledgeAddInputBody.title", "KnowledgeFileInputBody.title", "KnowledgeForm.title":
		return []any{"Heating"}
	case "KnowledgePassage.text", "KnowledgeSource.text", "KnowledgeAddInputBody.text":
		return []any{"Empty the drawer when it is three quarters full."}
	case "KnowledgeDocument.model":
		return []any{"text-embedding-3-small/1024"}
	case "KnowledgeSearchInputBody.query", "question":
		return []any{"Where do the ashes go?"}
	case "answer":
		return []any{"Into the drawer [1]."}
	case "section":
		return []any{"Removing ash"}
	case "framework":
		return []any{"SwiftUI"}
	case "symbol":
		return []any{"View.body"}
	case "mediaType":
		return []any{"text/markdown"}
	case "note":
		return []any{"Some passages have no vector of the configured model."}
	}
	return words(name)
}
