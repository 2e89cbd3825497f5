package vendors

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"

	"github.com/portico-run/portico/internal/mediatype"
)

func (s notionCall) listUsers(notionInput) (object, error) {
	got, err := s.get("users")
	return list("Users listed.", "users", got, err)
}

func (s notionCall) retrieveUser(in notionInput) (object, error) {
	got, err := s.get(at("users", in.UserID))
	return answer("User retrieved.", err, "user", got)
}

func (s notionCall) createComment(in notionInput) (object, error) {
	if (in.PageID == "") == (in.DiscussionID == "") {
		return nil, refuse("give pageId or discussionId, and not both")
	}
	body := object{"rich_text": richText(in.Comment)}
	if in.PageID != "" {
		body["parent"] = object{"page_id": in.PageID}
	} else {
		body["discussion_id"] = in.DiscussionID
	}
	got, err := s.send(http.MethodPost, "comments", body)
	return answer("Comment created.", err, "comment", got)
}

func (s notionCall) createUpload(in notionInput) (object, error) {
	body := object{}
	for name, value := range map[string]string{"mode": in.Mode, "filename": in.Filename, "content_type": in.ContentType, "external_url": in.ExternalURL} {
		if value != "" {
			body[name] = value
		}
	}
	if in.Parts > 0 {
		body["number_of_parts"] = in.Parts
	}
	switch {
	case in.Mode == "external_url" && (in.ExternalURL == "" || in.Filename == ""):
		return nil, refuse("externalUrl and filename must be there for the mode external_url")
	case in.Mode == "multi_part" && (in.Parts == 0 || in.Filename == ""):
		return nil, refuse("numberOfParts and filename must be there for the mode multi_part")
	}
	got, err := s.send(http.MethodPost, "file_uploads", body)
	return answer("File upload created.", err, "fileUploadId", got["id"], "fileUpload", got)
}

// sendUpload sends the content of a file as a form, which is what Notion takes.
func (s notionCall) sendUpload(in notionInput) (object, error) {
	content, err := base64.StdEncoding.DecodeString(in.FileData)
	if err != nil {
		return nil, refuse("fileData: is neither base64 nor a drive file")
	}
	if in.ContentType == "" {
		in.ContentType = mediatype.Of(in.Filename, content)
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {mime.FormatMediaType("form-data", map[string]string{"name": "file", "filename": in.Filename})}, "Content-Type": {in.ContentType},
	})
	if err == nil {
		_, err = part.Write(content)
	}
	if err == nil && in.PartNumber > 0 {
		err = w.WriteField("part_number", strconv.Itoa(in.PartNumber))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	var got object
	_, err = s.api.do(s.ctx, ask{
		method: http.MethodPost, url: s.api.base("baseUrl") + "/v1/" + at("file_uploads", in.UploadID, "send"), raw: b.Bytes(),
		header: http.Header{"Notion-Version": {notionVersion}, "Content-Type": {w.FormDataContentType()}},
	}, &got)
	return answer("File sent.", err, "fileUpload", got)
}

func (s notionCall) completeUpload(in notionInput) (object, error) {
	got, err := s.send(http.MethodPost, at("file_uploads", in.UploadID, "complete"), json.RawMessage("{}"))
	return answer("File upload completed.", err, "fileUpload", got)
}

func (s notionCall) retrieveUpload(in notionInput) (object, error) {
	got, err := s.get(at("file_uploads", in.UploadID))
	return answer("File upload retrieved.", err, "fileUpload", got)
}

func (s notionCall) listUploads(in notionInput) (object, error) {
	query := url.Values{}
	if in.Status != "" {
		query.Set("status", in.Status)
	}
	if in.PageSize > 0 {
		query.Set("page_size", strconv.Itoa(in.PageSize))
	}
	if in.StartCursor != "" {
		query.Set("start_cursor", in.StartCursor)
	}
	got, err := s.get("file_uploads?" + query.Encode())
	return list("File uploads listed.", "fileUploads", got, err)
}
