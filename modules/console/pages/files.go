package pages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/portico-run/portico/modules/console/form"
)

// canvas is a place for runs and files, as the API has it. Files and Bytes are
// what is in it, where the API says so.
type canvas struct {
	CanvasID, Title      string
	CreatedAt, UpdatedAt time.Time
	Files, Runs          int
	Bytes                int64
}

// Name is the title, or what stands for one.
func (c canvas) Name() string {
	if strings.TrimSpace(c.Title) == "" {
		return "Untitled"
	}
	return c.Title
}

type file struct {
	FileID, CanvasID, Name, Type, Category string
	Source, Summary, ResultID, URL         string
	Size                                   int64
	CreatedAt                              time.Time
}

// Image reports whether browsers can show the file as an image. SVG is shown as
// text: it may hold scripts.
func (f file) Image() bool {
	switch f.Type {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

type canvasesView struct {
	Canvases []canvas
	Storage  part[limits]
	Create   form.View
	Next     string
}

const canvasForm = `{"type":"object","additionalProperties":false,"required":["title"],"properties":{
	"title":{"x-label":"Title","type":"string","minLength":1,"maxLength":100,"description":"What it is about"}}}`

func (p *Pages) canvases(v *Visit) (Answer, error) {
	return p.showCanvases(v, p.createCanvas.View("create", nil, nil), http.StatusOK)
}

func (p *Pages) showCanvases(v *Visit, create form.View, status int) (Answer, error) {
	var page list[canvas]
	if err := v.get("/v1/canvas/list", pick(v.R.URL.Query(), "cursor"), &page); err != nil {
		return Answer{}, err
	}
	view := canvasesView{Canvases: page.Items, Next: v.next(page.NextCursor), Create: create, Storage: load[limits](v, "/v1/limits", nil)}
	return Answer{Title: "Files", Template: "canvases", Data: view, Status: status}, nil
}

func (p *Pages) makeCanvas(v *Visit) (Answer, error) {
	var made canvas
	view, ok, err := v.submit(p.createCanvas, "create", func(body json.RawMessage) error {
		return v.send(http.MethodPost, "/v1/canvas/create", body, &made)
	})
	if err != nil {
		return Answer{}, err
	}
	if !ok {
		return p.showCanvases(v, view, http.StatusUnprocessableEntity)
	}
	return Answer{To: "/files/" + url.PathEscape(made.CanvasID)}, nil
}

type filesView struct {
	Canvas  canvas
	Files   []file
	Next    string
	Link    *fileLink
	Problem *Problem
}

// fileLink is a link that was just made.
type fileLink struct {
	File      string
	URL       string
	ExpiresAt time.Time
}

func (p *Pages) files(v *Visit) (Answer, error) { return p.showFiles(v, filesView{}, http.StatusOK) }

func (p *Pages) showFiles(v *Visit, view filesView, status int) (Answer, error) {
	id := v.R.PathValue("canvas")
	if err := v.get("/v1/canvas/"+url.PathEscape(id), nil, &view.Canvas); err != nil {
		return Answer{}, err
	}
	query := pick(v.R.URL.Query(), "cursor")
	query.Set("canvasId", id)
	var page list[file]
	if err := v.get("/v1/drive/file/list", query, &page); err != nil {
		return Answer{}, err
	}
	view.Files, view.Next = page.Items, v.next(page.NextCursor)
	return Answer{Title: view.Canvas.Name(), Template: "files", Data: view, Status: status}, nil
}

// upload gives the files of a form to the API, one after the other, as they
// come: none is held.
func (p *Pages) upload(v *Visit) (Answer, error) {
	id := v.R.PathValue("canvas")
	parts, err := v.R.MultipartReader()
	if err != nil {
		return Answer{}, errNoFile
	}
	sent := 0
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Answer{}, errNoFile
		}
		if part.FormName() != "file" || part.FileName() == "" {
			continue
		}
		if err := p.uploadOne(v, id, part); err != nil {
			return p.notUploaded(v, part.FileName(), sent, err)
		}
		sent++
	}
	if sent == 0 {
		return p.notUploaded(v, "", 0, errNoFile)
	}
	return Answer{To: "/files/" + url.PathEscape(id)}, nil
}

// notUploaded shows the files with what went wrong.
func (p *Pages) notUploaded(v *Visit, name string, sent int, err error) (Answer, error) {
	refused, ok := ProblemOf(err)
	if !ok {
		return Answer{}, err
	}
	if name != "" {
		refused.Message = fmt.Sprintf("%s was not stored: %s", name, refused.Message)
	}
	if sent > 0 {
		refused.Detail += fmt.Sprintf(" The %d before it are stored.", sent)
	}
	return p.showFiles(v, filesView{Problem: &refused}, refused.Status)
}

func (p *Pages) uploadOne(v *Visit, canvasID string, part *multipart.Part) error {
	r, w := io.Pipe()
	body := multipart.NewWriter(w)
	go func() {
		w.CloseWithError(copyPart(body, canvasID, part))
	}()
	err := v.stream("/v1/drive/file/upload", body.FormDataContentType(), r)
	_ = r.CloseWithError(io.ErrClosedPipe) // ends the copy, if the Answer came first
	return err
}

func copyPart(body *multipart.Writer, canvasID string, part *multipart.Part) error {
	if err := body.WriteField("canvasId", canvasID); err != nil {
		return err
	}
	to, err := body.CreatePart(part.Header)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, part); err != nil {
		return err
	}
	return body.Close()
}

// preview is the beginning of a file.
type preview struct {
	File  file
	Kind  string
	Text  string
	Whole bool
	Table *struct {
		Columns   []struct{ Name, Type string }
		Rows      [][]json.RawMessage
		TotalRows *int64
	}
}

// Cells are the rows of the table, each value as text.
func (p preview) Cells() [][]string {
	rows := make([][]string, len(p.Table.Rows))
	for i, row := range p.Table.Rows {
		for _, value := range row {
			var text string
			if json.Unmarshal(value, &text) != nil || string(value) == "null" {
				text = string(value)
			}
			rows[i] = append(rows[i], text)
		}
	}
	return rows
}

type fileView struct {
	Canvas  canvas
	File    file
	Preview preview
	Link    *fileLink
}

// find reads a file with its beginning, and its canvas: the one that the address
// names.
func (p *Pages) find(v *Visit) (fileView, error) {
	var view fileView
	id, fileID := v.R.PathValue("canvas"), v.R.PathValue("file")
	if err := v.get("/v1/canvas/"+url.PathEscape(id), nil, &view.Canvas); err != nil {
		return view, err
	}
	if err := v.get("/v1/drive/file/preview/"+url.PathEscape(fileID), nil, &view.Preview); err != nil {
		return view, err
	}
	view.File = view.Preview.File
	if view.File.CanvasID != id {
		return view, errNoPage
	}
	return view, nil
}

func (p *Pages) file(v *Visit) (Answer, error) {
	view, err := p.find(v)
	return Answer{Title: view.File.Name, Template: "file", Data: view}, err
}

func (p *Pages) linkFile(v *Visit) (Answer, error) {
	view, err := p.find(v)
	if err != nil {
		return Answer{}, err
	}
	view.Link = &fileLink{File: view.File.Name}
	if err := v.send(http.MethodPost, "/v1/drive/file/presign", map[string]string{"fileId": view.File.FileID}, view.Link); err != nil {
		return Answer{}, err
	}
	return Answer{Title: view.File.Name, Template: "file", Data: view}, nil
}

func (p *Pages) deleteFile(v *Visit) (Answer, error) {
	err := v.send(http.MethodPost, "/v1/drive/file/delete", map[string]string{"fileId": v.R.PathValue("file")}, nil)
	return Answer{To: "/files/" + url.PathEscape(v.R.PathValue("canvas"))}, err
}

func (p *Pages) renameCanvas(v *Visit) (Answer, error) {
	id := v.R.PathValue("canvas")
	err := v.send(http.MethodPatch, "/v1/canvas/"+url.PathEscape(id), map[string]string{"title": v.R.PostFormValue("title")}, nil)
	return Answer{To: "/files/" + url.PathEscape(id)}, err
}

func (p *Pages) deleteCanvas(v *Visit) (Answer, error) {
	err := v.send(http.MethodDelete, "/v1/canvas/"+url.PathEscape(v.R.PathValue("canvas"))+"?force=true", nil, nil)
	return Answer{To: "/files"}, err
}
