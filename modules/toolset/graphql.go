package toolset

// GraphQL is a method that is a request in that language: docs/graphql.md. The
// arguments are its variables.
type GraphQL struct {
	// Query is one operation with one field.
	Query string `json:"query" yaml:"query"`
	// Root is that field, whose value is the result.
	Root string `json:"root" yaml:"root"`
	// Fields is the argument that chooses what comes back, a selection set;
	// empty for none. The toolset keeps the types that it is checked against.
	Fields string `json:"fields,omitempty" yaml:"fields"`
}

// GraphQLTypes begins the names of those shared schemas whose $comment holds
// definitions in GraphQL's language.
const GraphQLTypes = "graphql-types-"
