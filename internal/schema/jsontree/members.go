package jsontree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Member is one member of an object, with its value as it was written.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members reads the members of an object in their order, and nothing within
// them. One that comes twice is there twice. It returns an error for what is no
// object.
func Members(object []byte) ([]Member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var members []Member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		members = append(members, Member{fmt.Sprint(name), value})
	}
	return members, nil
}

// Join writes an object of members.
func Join(members []Member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.Name) // texts always have a JSON form
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.Value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
