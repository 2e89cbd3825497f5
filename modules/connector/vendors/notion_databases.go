package vendors

import "net/http"

// sourceOf is the data source behind an id: the first one of a database, or the
// id itself where it is that of a source.
func (s notionCall) sourceOf(id string) (string, error) {
	database, err := s.get(at("databases", id))
	if missing(err) {
		if _, failure := s.get(at("data_sources", id)); failure == nil {
			return id, nil
		}
	}
	if err != nil {
		return "", err
	}
	sources, _ := database["data_sources"].([]any)
	if len(sources) == 0 {
		return "", refuse("the database %s has no data source that the integration may read", id)
	}
	first, _ := sources[0].(object)
	source, _ := first["id"].(string)
	return source, nil
}

// titleColumn is the name of the column that holds titles.
func (s notionCall) titleColumn(source string) (string, error) {
	got, err := s.get(at("data_sources", source))
	return titleOf(got), err
}

func (s notionCall) createDatabase(in notionInput) (object, error) {
	database, err := s.send(http.MethodPost, "databases", object{
		"parent": object{"type": "page_id", "page_id": in.ParentID}, "title": richText(text(in.Title)),
		"initial_data_source": object{"properties": in.Properties},
	})
	return answer("Database created.", err, "databaseId", database["id"], "url", database["url"], "database", database)
}

func (s notionCall) retrieveDatabase(in notionInput) (object, error) {
	database, err := s.get(at("databases", in.DatabaseID))
	return answer("Database retrieved.", err, "database", database)
}

func (s notionCall) queryDatabase(in notionInput) (object, error) {
	source, err := s.sourceOf(in.DatabaseID)
	if err != nil {
		return nil, err
	}
	body := in.paged(object{})
	if in.Filter != nil {
		body["filter"] = in.Filter
	}
	if in.Sorts != nil {
		body["sorts"] = in.Sorts
	}
	got, err := s.send(http.MethodPost, at("data_sources", source, "query"), body)
	return list("Database queried.", "results", got, err)
}

func (s notionCall) databaseProperties(in notionInput) (object, error) {
	source, err := s.sourceOf(in.DatabaseID)
	if err != nil {
		return nil, err
	}
	got, err := s.get(at("data_sources", source))
	return answer("Database properties retrieved.", err, "dataSourceId", source, "properties", got["properties"])
}

// updateDatabase changes the title and description at the database, and the
// columns at its data source.
func (s notionCall) updateDatabase(in notionInput) (object, error) {
	body := object{}
	if in.Title != nil {
		body["title"] = richText(*in.Title)
	}
	if in.Description != nil {
		body["description"] = richText(*in.Description)
	}
	if len(body) == 0 && in.Properties == nil {
		return nil, refuse("give a title, a description or properties")
	}
	if in.Properties != nil {
		source, err := s.sourceOf(in.DatabaseID)
		if err != nil {
			return nil, err
		}
		if _, err := s.send(http.MethodPatch, at("data_sources", source), object{"properties": in.Properties}); err != nil {
			return nil, err
		}
	}
	database, err := s.get(at("databases", in.DatabaseID))
	if len(body) > 0 && err == nil {
		database, err = s.send(http.MethodPatch, at("databases", in.DatabaseID), body)
	}
	return answer("Database updated.", err, "database", database)
}
