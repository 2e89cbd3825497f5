package store

import (
	"bytes"

	"github.com/portico-run/portico/modules/toolset/rows"
)

// changes are the columns in which a row is to be another one.
func changes(before, want map[string]any) map[string]any {
	columns := map[string]any{}
	for name, value := range want {
		if before[name] != value {
			columns[name] = value
		}
	}
	return columns
}

// value is what a column holds; nil for NULL, which an empty text is not.
func value[T any](column *T) any {
	if column == nil {
		return nil
	}
	return *column
}

// differences are the columns in which a stored toolset is not what its spec
// says. Credentials are compared by what was sealed: sealing the same again is
// another text.
func (s *Service) differences(before rows.Inventory, i Spec) map[string]any {
	want := s.inventoryOf(i, before.CreatedAt)
	columns := changes(inventoryColumns(before), inventoryColumns(want))
	if !s.sameCredential(before.APIKey, i.Credential.Plain()) {
		columns["api_key"] = want.APIKey
	}
	return columns
}

// sameCredential reports whether a sealed credential is the given one. One
// that cannot be opened, after a change of the key, is replaced.
func (s *Service) sameCredential(sealed *string, want []byte) bool {
	if sealed == nil || want == nil {
		return sealed == nil && want == nil
	}
	opened, err := s.box.Open(*sealed)
	return err == nil && bytes.Equal(opened, want)
}

func inventoryColumns(r rows.Inventory) map[string]any {
	return map[string]any{
		"name": r.Name, "domain": value(r.Domain), "label_dict": r.LabelDict, "description_dict": r.DescriptionDict, "type": r.Type,
		"enabled": r.Enabled, "credit_billing": value(r.CreditBilling), "egress": value(r.Egress), "auth_patterns": r.AuthPatterns,
		"config_items": r.ConfigItems, "approval": r.Approval, "deleted_at": value(r.DeletedAt),
	}
}

func methodColumns(r rows.Method) map[string]any {
	return map[string]any{
		"description": r.Description, "endpoint": r.Endpoint, "http_method": r.HTTPMethod, "request_schema": r.RequestSchema,
		"response_schema": r.ResponseSchema, "adapter_config": value(r.AdapterConfig), "allowed_callers": r.AllowedCallers,
		"approval": r.Approval, "effect": r.Effect,
		"enabled": r.Enabled, "deleted_at": value(r.DeletedAt),
	}
}

func globalColumns(r rows.Toolset) map[string]any {
	return map[string]any{
		"name": r.Name, "auth_type": value(r.AuthType), "auth_data": value(r.AuthData), "config": value(r.Config), "enabled": r.Enabled,
		"uninstalled": r.Uninstalled,
	}
}
