package record

import "github.com/portico-run/portico/internal/database"

// nth counts the calls that a call's program made of the same tool, up to that
// call.
func (repository) nth(h database.Handle, uid, callID string) (int64, error) {
	var n int64
	return n, database.Unscoped(h).Table("tool_call_results AS c").
		Joins("JOIN tool_call_results AS own ON own.ptc_call_id = c.ptc_call_id AND own.toolset_id = c.toolset_id AND own.tool_name = c.tool_name").
		Where("own.uid = ? AND c.uid = own.uid AND own.call_id = ? AND c.pk <= own.pk", uid, callID).Count(&n).Error
}
