package vendors

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/portico-run/portico/modules/tool"
)

func (s notionCall) retrievePage(in notionInput) (object, error) {
	page, err := s.get(at("pages", in.PageID))
	return answer("Page retrieved.", err, "page", page)
}

// createPage creates a page in whatever the parent is.
func (s notionCall) createPage(in notionInput) (object, error) {
	source, err := s.sourceOf(in.ParentID)
	if missing(err) {
		properties := object{"title": object{"title": richText(text(in.Title))}}
		maps.Copy(properties, in.Properties)
		return s.makePage(object{"type": "page_id", "page_id": in.ParentID}, properties, in)
	}
	if err != nil {
		return nil, err
	}
	return s.makeRow(source, in)
}

// createInDatabase creates a page in a database.
func (s notionCall) createInDatabase(in notionInput) (object, error) {
	source, err := s.sourceOf(in.ParentDatabaseID)
	if err != nil {
		return nil, err
	}
	return s.makeRow(source, in)
}

// makeRow creates a page in a data source.
func (s notionCall) makeRow(source string, in notionInput) (object, error) {
	properties := object{}
	if in.Title != nil {
		name, err := s.titleColumn(source)
		if err != nil {
			return nil, err
		}
		properties[name] = object{"title": richText(*in.Title)}
	}
	maps.Copy(properties, in.Properties)
	return s.makePage(object{"type": "data_source_id", "data_source_id": source}, properties, in)
}

func (s notionCall) makePage(parent, properties object, in notionInput) (object, error) {
	body := object{"parent": parent, "properties": properties}
	if in.Icon != nil {
		body["icon"] = in.Icon
	}
	if in.Cover != nil {
		body["cover"] = in.Cover
	}
	blocks := blocksOf(in.Content)
	first := blocks[:min(len(blocks), maxChildren)]
	if len(first) > 0 {
		body["children"] = first
	}
	page, err := s.send(http.MethodPost, "pages", body)
	if err != nil {
		return nil, err
	}
	id, _ := page["id"].(string)
	if written, err := s.appendAll(id, blocks[len(first):]); err != nil {
		return nil, halfWritten(err, id, len(first)+written, len(blocks))
	}
	return answer("Page created.", nil, "pageId", id, "url", page["url"], "page", page)
}

// halfWritten is the failure of a page that was made without all of its blocks.
func halfWritten(err error, id string, written, all int) error {
	f, ok := errors.AsType[*tool.Failure](err)
	if !ok {
		return err
	}
	reason, _, _ := strings.Cut(f.Message, " Try again after ") // which is wrong of the whole call
	return &tool.Failure{Code: f.Code, Data: f.Data, Message: fmt.Sprintf(
		"The page %s was made, with the first %d of %d blocks. Another call makes another page: append the rest to this one, or delete it. Notion: %s", id, written, all, reason,
	)}
}

func (s notionCall) updatePage(in notionInput) (object, error) {
	body, properties := object{}, object{}
	if in.Title != nil {
		page, err := s.get(at("pages", in.PageID))
		if err != nil {
			return nil, err
		}
		properties[titleOf(page)] = object{"title": richText(*in.Title)}
	}
	maps.Copy(properties, in.Properties)
	if len(properties) > 0 {
		body["properties"] = properties
	}
	if in.Archived != nil {
		body["archived"] = *in.Archived
	}
	if len(body) == 0 {
		return nil, refuse("give a title, properties or archived")
	}
	page, err := s.send(http.MethodPatch, at("pages", in.PageID), body)
	return answer("Page updated.", err, "page", page)
}

// titleOf is the name of a page's title: in a database it is that of a column.
func titleOf(page object) string {
	properties, _ := page["properties"].(object)
	for name, p := range properties {
		if column, ok := p.(object); ok && column["type"] == "title" {
			return name
		}
	}
	return "title"
}

func (s notionCall) search(in notionInput) (object, error) {
	body := in.paged(object{})
	if in.Query != "" {
		body["query"] = in.Query
	}
	if in.Filter != nil {
		if in.Filter["value"] == "database" { // its name in older versions
			in.Filter["value"] = "data_source"
		}
		body["filter"] = in.Filter
	}
	if in.Sort != nil {
		body["sort"] = in.Sort
	}
	got, err := s.send(http.MethodPost, "search", body)
	return list("Search completed.", "results", got, err)
}

func (s notionCall) propertyItem(in notionInput) (object, error) {
	got, err := s.get(at("pages", in.PageID, "properties", in.PropertyID))
	return answer("Property retrieved.", err, "property", got)
}

// maxCopied bounds the blocks of a copy, and how deep they are nested.
const (
	maxCopied    = 2000
	maxCopyDepth = 3
)

// duplicatePage copies a page: its title, and its blocks as far as they can be
// made anew.
func (s notionCall) duplicatePage(in notionInput) (object, error) {
	page, err := s.get(at("pages", in.PageID))
	if err != nil {
		return nil, err
	}
	if in.Title == nil {
		title := plainTitle(page) + " (copy)"
		in.Title = &title
	}
	left := maxCopied
	blocks, err := s.copyBlocks(in.PageID, 1, &left)
	if err != nil {
		return nil, err
	}
	made, err := s.createPage(notionInput{ParentID: in.ParentID, Title: in.Title})
	if err != nil {
		return nil, err
	}
	id, _ := made["pageId"].(string)
	if written, err := s.appendAll(id, blocks); err != nil {
		return nil, halfWritten(err, id, written, len(blocks))
	}
	return answer("Page duplicated.", nil, "pageId", id, "url", made["url"], "page", made["page"], "blocks", maxCopied-left)
}

func plainTitle(page object) string {
	properties, _ := page["properties"].(object)
	column, _ := properties[titleOf(page)].(object)
	parts, _ := column["title"].([]any)
	var title strings.Builder
	for _, p := range parts {
		part, _ := p.(object)
		t, _ := part["plain_text"].(string)
		title.WriteString(t)
	}
	return title.String()
}
